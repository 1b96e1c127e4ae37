// SPDX-License-Identifier: Apache-2.0

package projected

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/atomicwriter"
)

// maxCredentialBytes is more than any token or certificate chain has.
const maxCredentialBytes = 1 << 20

// readFile returns what a file of the volume holds, empty if that cannot be had.
func (c *collection) readFile(path string) string {
	current, err := atomicwriter.Current(c.dir)
	if err != nil {
		return ""
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	name := current + "/" + path
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() > maxCredentialBytes {
		return ""
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(data)
}

// audiences are one string or several.
type audiences []string

func (a *audiences) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// tokenClaims are those claims of a service account token that tell what it was issued for. The signature is not checked: nobody but
// this plugin can write to the volume.
type tokenClaims struct {
	Subject    string    `json:"sub"`
	Audiences  audiences `json:"aud"`
	IssuedAt   int64     `json:"iat"`
	Expires    int64     `json:"exp"`
	Kubernetes struct {
		Pod struct {
			UID types.UID `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// tokenOnDisk returns the token that the volume holds from before the program was restarted, nil if there is none, or it is not what
// is wanted now. A token that does not tell is not used.
func tokenOnDisk(c *collection, path string, wanted tokenRequest) *credential {
	token := strings.TrimSpace(c.readFile(path))
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims tokenClaims
	if json.Unmarshal(payload, &claims) != nil || claims.IssuedAt == 0 || claims.Expires == 0 {
		return nil
	}
	if claims.Subject != "system:serviceaccount:"+c.pod.Namespace+":"+wanted.account || claims.Kubernetes.Pod.UID != c.pod.UID ||
		wanted.audience != "" && !slices.Contains(claims.Audiences, wanted.audience) {
		return nil
	}
	issued, expires := time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
	// An API server may issue a token for longer than was asked for.
	life := min(expires.Sub(issued), time.Duration(wanted.seconds)*time.Second)
	return &credential{of: wanted, files: map[string]string{tokenFile: token}, expires: expires, renewFrom: renewalOf(issued, life)}
}

// certificateOnDisk does the same for a key and its certificate. When the signer wants it to be renewed is not known any more: it is
// renewed at once, and used as long as that fails.
func certificateOnDisk(c *collection, p *certificatePart, wanted certificateRequest) *credential {
	text := c.readFile(p.source.CredentialBundlePath)
	if p.source.CredentialBundlePath == "" {
		if p.source.KeyPath == "" || p.source.CertificateChainPath == "" {
			return nil
		}
		text = c.readFile(p.source.KeyPath) + c.readFile(p.source.CertificateChainPath)
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != keyBlock {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(crypto.Signer)
	if err != nil || !ok {
		return nil
	}
	chain, leaf, err := certificatesOf(string(rest))
	if err != nil || !isKeyOf(key, leaf) {
		return nil
	}
	return &credential{of: wanted, files: map[string]string{keyFile: string(pem.EncodeToMemory(block)), chainFile: chain},
		expires: leaf.NotAfter, renewFrom: leaf.NotBefore}
}
