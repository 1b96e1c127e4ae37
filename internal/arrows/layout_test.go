// SPDX-License-Identifier: Apache-2.0

package arrows

import "strings"

// module is the path of this module.
const module = "github.com/volumekit/volumekit"

// A rule says what the packages of one folder may import beside the standard library and each other.
type rule struct {
	// folder of the module, "" for its root. The rule holds for the folders below it too, unless one has its own.
	folder string
	// own are the folders of other rules whose packages may be imported.
	own []string
	// others are import paths of other modules that may be imported, with what is below them.
	others []string
	// anything lifts both lists. What nobody may link is still forbidden.
	anything bool
	// light forbids heavy, however indirectly it is imported.
	light bool
}

// What the rules below have in common.
var (
	// base is what a contract is written with.
	base = []string{
		"golang.org/x/sys",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/klog/v2",
		"k8s.io/mount-utils",
		"k8s.io/utils",
	}
	// plugin is what a plugin knows of this module: no other plugin, no manager and no controller.
	plugin = []string{"volume", "internal", "internal/devicemount", "internal/podfield", "internal/provisioning", "internal/turns", "internal/volumedir"}
	// controller is what a controller is written with.
	controller = with("k8s.io/client-go", "k8s.io/component-helpers")
)

// layout is the one place that says which arrows there are. They go downwards only: volume knows no plugin, and a plugin
// knows nothing but volume.
var layout = []rule{
	{folder: "", light: true},
	{folder: "volume", own: []string{"internal"}, others: base, light: true},
	{folder: "volume/volumetest", own: []string{"volume", "internal", "internal/mountns"}, others: with("github.com/stretchr/testify", "go.uber.org/goleak"), light: true},

	{folder: "emptydir", own: plugin, others: with("k8s.io/component-helpers/resource"), light: true},
	{folder: "hostpath", own: plugin, others: base, light: true},
	{folder: "nfs", own: plugin, others: base, light: true},
	{folder: "blockdev", own: plugin, others: base, light: true},
	{folder: "flex", own: plugin, others: with("github.com/fsnotify/fsnotify"), light: true},
	{folder: "projected", own: plugin, others: base, light: true},
	{folder: "csiadapter", own: plugin, others: with(
		"github.com/container-storage-interface/spec",
		"github.com/kubernetes-csi/csi-lib-utils",
		"google.golang.org/grpc",
		"google.golang.org/protobuf",
		"k8s.io/csi-translation-lib",
		"k8s.io/kubelet/pkg/apis/pluginregistration",
	)},
	{folder: "plugins", own: []string{"volume", "emptydir", "hostpath", "nfs", "blockdev", "flex", "projected"}, others: base, light: true},

	{folder: "volumemanager", own: []string{"volume", "internal", "internal/blockmap", "internal/podfield", "internal/turns"}, others: with(
		"github.com/opencontainers/runtime-spec",
		"github.com/opencontainers/selinux",
		"k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
		"k8s.io/component-helpers/storage/ephemeral",
		"k8s.io/csi-translation-lib",
	), light: true},

	{folder: "volumemanager/statushttp", own: []string{"volume", "volumemanager"}, others: with("github.com/prometheus/client_golang"), light: true},

	// Where the objects come from that volumes depend on.
	{folder: "objects", own: []string{"volume", "internal"}, others: base, light: true},
	{folder: "objects/directory", own: []string{"volume", "objects", "internal"}, others: with("github.com/fsnotify/fsnotify", "sigs.k8s.io/yaml", "sigs.k8s.io/json"), light: true},
	{folder: "objects/localissuer", own: []string{"volume", "objects", "internal"}, others: with("github.com/golang-jwt/jwt/v5"), light: true},
	{folder: "objects/cluster", own: []string{"volume", "internal"}, others: controller},

	{folder: "persistentvolume", own: []string{"volume", "internal"}, others: controller},
	{folder: "attachdetach", own: []string{"volume", "internal"}, others: controller},
	{folder: "scheduling", own: []string{"volume", "internal"}, others: controller},

	// What several packages share. mountns serves tests only.
	{folder: "internal", others: []string{
		"github.com/moby/sys/mountinfo",
		"golang.org/x/sys",
		"k8s.io/klog/v2",
		"k8s.io/mount-utils",
		"k8s.io/utils",
	}, light: true},
	{folder: "internal/podfield", own: []string{"volume"}, others: base, light: true},
	{folder: "internal/blockmap", own: []string{"internal", "volume"}, others: base, light: true},
	{folder: "internal/devicemount", own: []string{"internal", "internal/volumedir", "volume"}, others: base, light: true},
	{folder: "internal/provisioning", own: []string{"volume"}, others: base, light: true},
	{folder: "internal/turns", own: []string{"volume"}, others: base, light: true},
	{folder: "internal/volumedir", own: []string{"internal", "volume"}, others: base, light: true},
	{folder: "internal/mountns", others: []string{"github.com/moby/sys/mountinfo", "go.uber.org/goleak", "golang.org/x/sys"}, light: true},

	{folder: "examples", anything: true, light: true},
}

// heavy is what a program that embeds volumekit on a node does not link.
var heavy = []string{"google.golang.org/grpc", "k8s.io/client-go"}

// forbidden is what no package of this module links. The modules in e2e/ and bench/, which are not part of it, may.
var forbidden = []string{
	"cloud.google.com/go",
	"github.com/Azure",
	"github.com/aws",
	"k8s.io/kubernetes",
}

// embedded are the folders that a program on a node imports, see the weight in TestAnEmbedderLinksLittle.
var embedded = []string{"volume", "emptydir", "hostpath", "plugins", "volumemanager"}

// maxPackages is what embedded may consist of, the standard library included.
const maxPackages = 400

func with(more ...string) []string {
	return append(append([]string{}, base...), more...)
}

// ruleOf returns the rule of a folder: that of the deepest folder around it.
func ruleOf(folder string) (rule, bool) {
	var found rule
	ok := false
	for _, r := range layout {
		// The root's rule is for the root alone: a new folder has to be entered above.
		covers := r.folder == folder || r.folder != "" && under(folder, r.folder)
		if covers && (!ok || len(r.folder) > len(found.folder)) {
			found, ok = r, true
		}
	}
	return found, ok
}

// under reports whether path is root or below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// underAny returns the element of roots that path is or is below, or "".
func underAny(path string, roots []string) string {
	for _, root := range roots {
		if under(path, root) {
			return root
		}
	}
	return ""
}
