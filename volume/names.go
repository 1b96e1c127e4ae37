// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	utilstrings "k8s.io/utils/strings"
)

// maxNameBytes is NAME_MAX of Linux: the longest name of a directory entry.
const maxNameBytes = 255

// CheckPathElement reports why name cannot be one element of a path: it is empty, "." or "..", is longer than 255 bytes, or
// holds a slash or a control character. what says what the name is the name of ("driver"). The error matches [ErrInvalid].
func CheckPathElement(what, name string) error {
	var why string
	switch {
	case name == "":
		why = "is empty"
	case name == "." || name == "..":
		why = "names a directory relative to another"
	case len(name) > maxNameBytes:
		return Errorf(ErrInvalid, "%s %.32q… has %d bytes, more than the %d that a file name can have", what, name, len(name), maxNameBytes)
	case strings.ContainsRune(name, '/'):
		why = "holds a slash"
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		why = "holds a control character"
	default:
		return nil
	}
	return Errorf(ErrInvalid, "%s %q %s", what, name, why)
}

// CheckPodUID reports why uid cannot be the name of a pod's directory. The error matches [ErrInvalid].
func CheckPodUID(uid types.UID) error {
	if strings.HasPrefix(string(uid), ".") {
		return Errorf(ErrInvalid, "pod UID %.64q begins with a dot", string(uid))
	}
	return CheckPathElement("pod UID", string(uid))
}

// CheckName reports why name cannot be [Spec.Name]: Kubernetes gives volumes the name of a DNS label, PersistentVolumes
// that of a DNS subdomain, and this accepts the wider of the two. The error matches [ErrInvalid].
func CheckName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return Errorf(ErrInvalid, "volume name %s: %s", abbreviate(name), strings.Join(problems, "; "))
	}
	return nil
}

// checkPluginName accepts what can be turned into the name of a directory and back, and is two elements of a path.
func checkPluginName(name string) error {
	escaped := utilstrings.EscapeQualifiedName(name)
	if err := CheckPathElement("plugin name", escaped); err != nil {
		return err
	}
	domain, rest, _ := strings.Cut(name, "/")
	if CheckPathElement("", domain) != nil || CheckPathElement("", rest) != nil || strings.Contains(name, "~") || strings.HasPrefix(name, ".") {
		return Errorf(ErrInvalid, "plugin name %q is not a domain and a name parted by one slash", name)
	}
	return nil
}

func abbreviate(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%.64q…", s)
	}
	return fmt.Sprintf("%q", s)
}
