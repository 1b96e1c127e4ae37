// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// capablePlugin has every capability. It serves the PersistentVolumes of a storage server, which is a directory.
type capablePlugin struct {
	// The directory below the root, and taking it away, are those of a FakePlugin; what is mounted there is not.
	*volumetest.FakePlugin

	server string
	host   volume.Host

	// wrong says what the plugin does wrong, if anything.
	wrong string
	stuck bool
}

var (
	_ volume.AttachableVolumePlugin     = (*capablePlugin)(nil)
	_ volume.BlockVolumePlugin          = (*capablePlugin)(nil)
	_ volume.ProvisionableVolumePlugin  = (*capablePlugin)(nil)
	_ volume.DeletableVolumePlugin      = (*capablePlugin)(nil)
	_ volume.RecyclableVolumePlugin     = (*capablePlugin)(nil)
	_ volume.ExpandableVolumePlugin     = (*capablePlugin)(nil)
	_ volume.NodeExpandableVolumePlugin = (*capablePlugin)(nil)
	_ volume.PersistentVolumePlugin     = (*capablePlugin)(nil)
)

const (
	capableName   = "example.com/capable"
	capableDriver = "capable.example.com"
	canary        = "canary-5hx2"
)

func newCapablePlugin(server string) *capablePlugin {
	return &capablePlugin{
		FakePlugin: &volumetest.FakePlugin{
			PluginName: capableName,
			Serves:     []volume.Source{{Type: volume.SourceCSI}},
			Supports:   func(spec *volume.Spec) bool { return spec.PersistentVolume != nil },
			Tmpfs:      true,
		},
		server: server,
	}
}

// newServer has one volume, "handle".
func newServer(t testing.TB) string {
	server := t.TempDir()
	require.NoError(t, makeStorage(server, "handle"))
	return server
}

func makeStorage(server, handle string) error {
	storage := filepath.Join(server, "volumes", handle)
	if err := os.MkdirAll(storage, 0o777); err != nil {
		return err
	}
	return os.Chmod(storage, 0o777)
}

func capableConfig(server string) volumetest.Config {
	blockVolume := csiVolume(capableDriver, "handle")
	blockVolume.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	return volumetest.Config{
		New:  func() volume.VolumePlugin { return newCapablePlugin(server) },
		Host: func(string) volume.Host { return volume.Host{Secrets: secrets{}, NodeName: "node-1"} },
		Cases: []volumetest.Case{
			{
				Name:       "filesystem",
				Spec:       volume.NewSpecFromPersistentVolume(csiVolume(capableDriver, "handle"), false),
				Mounts:     true,
				Durable:    true,
				Recyclable: true,
				ExpandTo:   ptr.To(resource.MustParse("2Gi")),
			},
			{
				Name:    "block",
				Spec:    volume.NewSpecFromPersistentVolume(blockVolume, false),
				Durable: true,
			},
		},
		Invalid: []volumetest.InvalidCase{{
			Name:     "without a handle",
			Spec:     volume.NewSpecFromPersistentVolume(csiVolume(capableDriver, ""), false),
			Mentions: []string{"volumeHandle"},
		}},
		Canaries: []string{canary},
		Provision: &volumetest.ProvisionCase{
			Mounts: true,
			Options: volume.ProvisionOptions{
				Claim: &v1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
					Spec: v1.PersistentVolumeClaimSpec{
						AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
						VolumeMode:  ptr.To(v1.PersistentVolumeFilesystem),
						Resources: v1.VolumeResourceRequirements{
							Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
						},
					},
				},
				Class: &storagev1.StorageClass{
					Provisioner:   capableName,
					ReclaimPolicy: ptr.To(v1.PersistentVolumeReclaimDelete),
				},
			},
		},
	}
}

// secrets has one secret, the canary, under every name.
type secrets struct{}

func (secrets) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"password": []byte(canary)},
	}, nil
}

func (p *capablePlugin) Init(ctx context.Context, host volume.Host) error {
	if host.Secrets == nil {
		return errors.New("the plugin needs a source of secrets, but Host.Secrets is nil")
	}
	p.host = host
	return p.FakePlugin.Init(ctx, host)
}

func (p *capablePlugin) AccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
}

func (p *capablePlugin) VolumeName(spec *volume.Spec) (string, error) { return handleOf(spec) }

func handleOf(spec *volume.Spec) (string, error) {
	handle := spec.PersistentVolume.Spec.CSI.VolumeHandle
	if err := volume.CheckPathElement("spec.csi.volumeHandle", handle); err != nil {
		return "", err
	}
	return handle, nil
}

func (p *capablePlugin) storage(handle string) string {
	return filepath.Join(p.server, "volumes", handle)
}

func (p *capablePlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if _, err := handleOf(spec); err != nil {
		return nil, err
	}
	mounter, err := p.FakePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return &capableMounter{mounter, p, spec}, nil
}

type capableMounter struct {
	volume.Mounter
	plugin *capablePlugin
	spec   *volume.Spec
}

func (m *capableMounter) Attributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.spec.ReadOnly}
}

func (m *capableMounter) SetUp(ctx context.Context, _ volume.SetUpOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	device, err := m.plugin.DeviceMountPath(m.spec)
	if err != nil {
		return err
	}
	return m.plugin.bind(device, m.Path())
}

// bind mounts source on target, which it makes, unless something is mounted there.
func (p *capablePlugin) bind(source, target string) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	mounted, err := p.host.Mounter.IsMountPoint(target)
	if err != nil || mounted {
		return err
	}
	if err := p.host.Mounter.Mount(source, target, "", []string{"bind"}); err != nil {
		return volume.Errorf(volume.ErrUncertain, "bind %s on %s: %w", source, target, err)
	}
	return nil
}

func (m *capableMounter) Metrics(ctx context.Context) (volume.Metrics, error) {
	metrics := volume.Metrics{Time: time.Now()}
	err := filepath.WalkDir(m.Path(), func(_ string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			metrics.Used += info.Size()
			metrics.InodesUsed++
		}
		return err
	})
	return metrics, err
}

// Attaching: a file for each node and volume.

func (p *capablePlugin) NewAttacher() (volume.Attacher, error) {
	if p.wrong == "NewAttacher writes" {
		return capableAttacher{p}, os.MkdirAll(p.host.PluginDir(capableName), 0o755)
	}
	return capableAttacher{p}, nil
}

func (p *capablePlugin) NewDetacher() (volume.Detacher, error)     { return capableAttacher{p}, nil }
func (p *capablePlugin) CanAttach(*volume.Spec) (bool, error)      { return true, nil }
func (p *capablePlugin) CanDeviceMount(*volume.Spec) (bool, error) { return true, nil }

type capableAttacher struct{ *capablePlugin }

func (a capableAttacher) device(node types.NodeName, handle string) string {
	return filepath.Join(a.server, "attached", string(node), handle)
}

func (a capableAttacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (string, error) {
	handle, err := handleOf(spec)
	if err != nil {
		return "", err
	}
	if a.wrong == "Attach is stuck once it was cancelled" {
		if ctx.Err() != nil {
			a.stuck = true
		}
		if a.stuck {
			return "", errors.New("stuck")
		}
	}
	device := a.device(node, handle)
	if err := os.MkdirAll(filepath.Dir(device), 0o755); err != nil {
		return "", err
	}
	return device, os.WriteFile(device, nil, 0o600)
}

func (a capableAttacher) WaitForAttach(_ context.Context, _ *volume.Spec, device string) (string, error) {
	_, err := os.Stat(device)
	return device, err
}

func (a capableAttacher) Attached(_ context.Context, specs []*volume.Spec, node types.NodeName) (map[*volume.Spec]volume.Presence, error) {
	answers := make(map[*volume.Spec]volume.Presence)
	for _, spec := range specs {
		handle, err := handleOf(spec)
		if err != nil {
			return nil, err
		}
		if a.wrong == "Attached has no answer" {
			continue
		}
		answers[spec] = volume.Absent
		if _, err := os.Stat(a.device(node, handle)); err == nil && a.wrong != "Attached overlooks what is attached" {
			answers[spec] = volume.Present
		}
	}
	return answers, nil
}

func (a capableAttacher) Detach(_ context.Context, handle string, node types.NodeName) error {
	if a.wrong == "Detach of what is not attached fails" {
		return os.Remove(a.device(node, handle))
	}
	return removeIfThere(a.device(node, handle))
}

func removeIfThere(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Mounting for the node: a bind mount of the server's directory.

func (p *capablePlugin) NewDeviceMounter() (volume.DeviceMounter, error)     { return p, nil }
func (p *capablePlugin) NewDeviceUnmounter() (volume.DeviceUnmounter, error) { return p, nil }

func (p *capablePlugin) DeviceMountPath(spec *volume.Spec) (string, error) {
	handle, err := handleOf(spec)
	return filepath.Join(p.host.PluginMountsDir(capableName), handle), err
}

func (p *capablePlugin) MountDevice(ctx context.Context, spec *volume.Spec, _, path string, _ volume.DeviceMountOptions) error {
	handle, err := handleOf(spec)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if _, err := p.host.Secrets.Secret(ctx, "default", "password"); err != nil {
		return err
	}
	if p.wrong == "MountDevice mounts again" {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return p.host.Mounter.Mount(p.storage(handle), path, "", []string{"bind"})
	}
	return p.bind(p.storage(handle), path)
}

func (p *capablePlugin) UnmountDevice(_ context.Context, path string) error {
	mounted, err := p.host.Mounter.IsMountPoint(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case mounted:
		if err := p.host.Mounter.Unmount(path); err != nil {
			return err
		}
	}
	return os.RemoveAll(path)
}

func (p *capablePlugin) DeviceMountRefs(_ context.Context, path string) ([]string, error) {
	refs, err := p.host.Mounter.GetMountRefs(path)
	var others []string
	for _, ref := range refs {
		if ref != path || p.wrong == "DeviceMountRefs lists the path itself" {
			others = append(others, ref)
		}
	}
	if p.wrong == "DeviceMountRefs lists the path itself" {
		others = append(others, path)
	}
	return others, err
}

// Raw block devices: links to the file that attaching makes.

func (p *capablePlugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	if _, err := handleOf(spec); err != nil {
		return nil, err
	}
	return p.newBlockVolume(spec.Name(), pod.UID)
}

func (p *capablePlugin) NewBlockVolumeUnmapper(name string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	return p.newBlockVolume(name, podUID)
}

func (p *capablePlugin) newBlockVolume(name string, podUID types.UID) (*capableBlock, error) {
	err := errors.Join(volume.CheckName(name), volume.CheckPodUID(podUID))
	if err != nil && p.wrong != "block volumes may have any name" {
		return nil, err
	}
	if p.wrong == "NewBlockVolumeMapper writes" {
		return &capableBlock{p, name, podUID, ""}, os.MkdirAll(p.host.PluginDir(capableName), 0o755)
	}
	return &capableBlock{p, name, podUID, ""}, nil
}

type capableBlock struct {
	plugin *capablePlugin
	name   string
	podUID types.UID
	device string
}

func (b *capableBlock) GlobalMapPath() (string, error) {
	return filepath.Join(b.plugin.host.PluginVolumeDevicesDir(capableName), b.name), nil
}

func (b *capableBlock) PodDeviceMapPath() (dir, name string) {
	return b.plugin.host.PodVolumeDevicesDir(b.podUID, capableName), b.name
}

func (b *capableBlock) SetUpDevice(_ context.Context, device string) (string, error) {
	b.device = device
	return device, nil
}

// links are the link in the pod's directory and the one among those of all pods.
func (b *capableBlock) links() []string {
	global, _ := b.GlobalMapPath()
	dir, name := b.PodDeviceMapPath()
	return []string{filepath.Join(dir, name), filepath.Join(global, string(b.podUID))}
}

func (b *capableBlock) MapPodDevice(context.Context) (string, error) {
	for _, link := range b.links() {
		if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
			return "", err
		}
		if b.plugin.wrong == "MapPodDevice makes new links" {
			_ = os.Remove(link)
		}
		if err := os.Symlink(b.device, link); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return b.links()[0], nil
}

func (b *capableBlock) UnmapPodDevice(context.Context) error {
	var errs []error
	for _, link := range b.links() {
		if b.plugin.wrong == "UnmapPodDevice of what is not there fails" {
			errs = append(errs, os.Remove(link))
		} else {
			errs = append(errs, removeIfThere(link))
		}
	}
	return errors.Join(errs...)
}

func (b *capableBlock) TearDownDevice(context.Context, string) error {
	global, err := b.GlobalMapPath()
	return errors.Join(err, removeIfThere(global))
}

// Storage: a directory for each volume.

func (p *capablePlugin) NewProvisioner() (volume.Provisioner, error) { return p, nil }
func (p *capablePlugin) NewDeleter() (volume.Deleter, error)         { return p, nil }
func (p *capablePlugin) NewRecycler() (volume.Recycler, error)       { return p, nil }
func (p *capablePlugin) NewExpander() (volume.Expander, error)       { return p, nil }

func (p *capablePlugin) NewNodeExpander() (volume.NodeExpander, error) { return p, nil }

func (p *capablePlugin) Provision(ctx context.Context, options volume.ProvisionOptions) (*v1.PersistentVolume, error) {
	if err := ctx.Err(); err != nil {
		if p.wrong == "Provision that was cancelled leaves something in its way" {
			err = errors.Join(err, os.WriteFile(p.storage(options.PVName), nil, 0o600))
		}
		return nil, err
	}
	if err := makeStorage(p.server, options.PVName); err != nil {
		return nil, err
	}
	switch p.wrong {
	case "Provision gives too little":
		options.Claim = options.Claim.DeepCopy()
		options.Claim.Spec.Resources.Requests = nil
	case "Provision makes something new each time":
		options.PVName += fmt.Sprint(time.Now().UnixNano())
	case "Provision empties what is there":
		if err := emptyDirectory(p.storage(options.PVName)); err != nil {
			return nil, err
		}
	}
	pv := csiVolume(capableDriver, options.PVName)
	pv.Name = options.PVName
	pv.Spec.Capacity = options.Claim.Spec.Resources.Requests
	pv.Spec.AccessModes = options.Claim.Spec.AccessModes
	pv.Spec.VolumeMode = options.Claim.Spec.VolumeMode
	pv.Spec.PersistentVolumeReclaimPolicy = *options.Class.ReclaimPolicy
	return pv, nil
}

func (p *capablePlugin) Delete(_ context.Context, pv *v1.PersistentVolume) error {
	if by := pv.Annotations["pv.kubernetes.io/provisioned-by"]; by != capableName && p.wrong != "Delete deletes what others have provisioned" {
		return volume.Errorf(volume.ErrInvalid, "%s has provisioned volume %s", by, pv.Name)
	}
	if p.wrong == "Delete of what is gone fails" {
		return os.Remove(p.storage(pv.Spec.CSI.VolumeHandle))
	}
	return os.RemoveAll(p.storage(pv.Spec.CSI.VolumeHandle))
}

func (p *capablePlugin) Recycle(_ context.Context, pv *v1.PersistentVolume) error {
	storage := p.storage(pv.Spec.CSI.VolumeHandle)
	entries, err := os.ReadDir(storage)
	for _, entry := range entries {
		if p.wrong == "Recycle overlooks hidden files" && strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(storage, entry.Name())))
	}
	return err
}

func (p *capablePlugin) Expand(_ context.Context, _ *volume.Spec, size resource.Quantity) (volume.ExpandResult, error) {
	if p.wrong == "Expand reports no size" {
		return volume.ExpandResult{}, nil
	}
	return volume.ExpandResult{Size: size, NodeExpansionRequired: true}, nil
}

func (p *capablePlugin) NodeExpand(_ context.Context, options volume.NodeExpandOptions) (resource.Quantity, error) {
	if p.wrong == "NodeExpand looks for the volume elsewhere" {
		options.VolumePath += "-else"
	}
	_, err := os.Stat(options.VolumePath)
	return options.Size, err
}

func TestAPluginWithEveryCapabilityPassesTheSuite(t *testing.T) {
	volumetest.Run(t, capableConfig(newServer(t)))
}
