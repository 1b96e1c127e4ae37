// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"

	"github.com/opencontainers/selinux/go-selinux"
	"github.com/opencontainers/selinux/go-selinux/label"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
)

// SELinux tells which labels files need so that containers may use them. It decides two things, as Kubernetes 1.37 does: which
// PersistentVolumes are mounted with the label of their containers (the mount option "context", see
// [volume.SetUpOptions].SELinuxLabel), and which volumes the container runtime is asked to relabel file by file
// ([Mount].SELinuxRelabel).
type SELinux interface {
	// Enabled tells whether files have labels at all.
	Enabled() bool

	// FileLabel returns the label of files for a process with the options, which are not nil. What they leave open has the
	// system's default. It is empty if they ask for nothing.
	FileLabel(*v1.SELinuxOptions) (string, error)
}

// mountLabel returns the label that the whole volume is to be mounted with. It is empty if the runtime is to relabel the files
// instead, or nothing is to be labelled.
func mountLabel(s SELinux, v *podVolume) (string, error) {
	plugin, ok := v.plugin.(volume.SELinuxMountVolumePlugin)
	if !ok || v.spec.PersistentVolume == nil || !s.Enabled() {
		return "", nil
	}
	security := v.pod.Spec.SecurityContext
	if security != nil && security.SELinuxChangePolicy != nil && *security.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive {
		return "", nil
	}
	if supports, err := plugin.SupportsSELinuxMount(v.spec); err != nil || !supports {
		return "", err
	}
	found, by := "", ""
	for _, c := range containersOf(v.pod) {
		options := effectiveSELinuxOptions(security, c)
		if options == nil || len(mountsOf(c, v.name)) == 0 {
			continue
		}
		fileLabel, err := s.FileLabel(options)
		if err != nil {
			return "", volume.Errorf(volume.ErrInvalid, "seLinuxOptions of container %q: %w", c.Name, err)
		}
		if by != "" && fileLabel != found {
			return "", volume.Errorf(volume.ErrInvalid, "containers %q and %q use it with different SELinux labels, %q and %q, but it is mounted with one: "+
				"give them the same seLinuxOptions, or set seLinuxChangePolicy: Recursive", by, c.Name, found, fileLabel)
		}
		found, by = fileLabel, c.Name
	}
	return found, nil
}

// effectiveSELinuxOptions are the container's or, if it has none, the pod's.
func effectiveSELinuxOptions(security *v1.PodSecurityContext, c *v1.Container) *v1.SELinuxOptions {
	if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
		return c.SecurityContext.SELinuxOptions
	}
	if security != nil {
		return security.SELinuxOptions
	}
	return nil
}

// relabels reports whether the runtime is asked to relabel the volume's files: it is the pod's, may be relabelled, and does not
// have one label as a whole. A runtime without SELinux ignores that.
func (v *podVolume) relabels(attributes volume.Attributes) bool {
	return (attributes.Managed || attributes.FSGroupWalk) && attributes.SELinuxRelabel && v.label == ""
}

// kernelSELinux is the SELinux of the running kernel, with the policy that is installed.
type kernelSELinux struct{}

func orKernel(s SELinux) SELinux {
	if s == nil {
		return kernelSELinux{}
	}
	return s
}

func (kernelSELinux) Enabled() bool { return selinux.GetEnabled() }

func (kernelSELinux) FileLabel(options *v1.SELinuxOptions) (string, error) {
	var asked []string
	for _, part := range []struct{ name, value string }{
		{"user", options.User}, {"role", options.Role}, {"type", options.Type}, {"level", options.Level},
	} {
		if part.value != "" {
			asked = append(asked, fmt.Sprintf("%s:%s", part.name, part.value))
		}
	}
	if len(asked) == 0 {
		return "", nil
	}
	process, file, err := label.InitLabels(asked)
	if err != nil {
		return "", err
	}
	selinux.ReleaseLabel(process) // a level that was chosen for it is not used
	return file, nil
}
