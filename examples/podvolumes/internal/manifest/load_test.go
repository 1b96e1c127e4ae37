// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/examples/podvolumes/internal/manifest"
)

// pod is the shortest manifest of a pod, as one line of YAML that is JSON too.
func pod(name string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q}, "spec": {"containers": [{"name": "c"}]}}`, name)
}

// places are the documents that pods come from, as NAME@DOCUMENT:LINE.
func places(result *manifest.Result) []string {
	var all []string
	for _, p := range result.Pods {
		all = append(all, fmt.Sprintf("%s@%d:%d", p.Pod.Name, p.Origin.Document, p.Origin.Line))
	}
	return all
}

func TestDocumentsArePartedAsYAMLAndJSONPartThem(t *testing.T) {
	block := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: c\n"
	a, b := fmt.Sprintf(block, "a"), fmt.Sprintf(block, "b")
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                                {"", nil},
		"only comments and separators":           {"# a\n---\n\n---\n# b\n--- # c\n...\n", nil},
		"null documents":                         {"---\nnull\n---\n~\n", nil},
		"one without an end of line":             {strings.TrimSuffix(a, "\n"), []string{"a@1:1"}},
		"two":                                    {a + "---\n" + b, []string{"a@1:1", "b@2:9"}},
		"a separator first and last":             {"---\n" + a + "---\n" + b + "---\n", []string{"a@1:2", "b@2:10"}},
		"empty ones between count for nothing":   {a + "---\n---\n# nothing\n---\n" + b, []string{"a@1:1", "b@2:12"}},
		"comments before the first line":         {"# licence\n\n" + a, []string{"a@1:3"}},
		"a comment on the separator's line":      {a + "--- # the second\n" + b, []string{"a@1:1", "b@2:9"}},
		"white space behind the separator":       {a + "--- \t\n" + b, []string{"a@1:1", "b@2:9"}},
		"the end marker":                         {a + "...\n---\n" + b, []string{"a@1:1", "b@2:10"}},
		"the end marker alone":                   {a + "...\n" + b, []string{"a@1:1", "b@2:9"}},
		"a document on the separator's line":     {"--- " + pod("a") + "\n--- " + pod("b"), []string{"a@1:1", "b@2:2"}},
		"a byte order mark":                      {"\ufeff" + a + "---\n" + b, []string{"a@1:1", "b@2:9"}},
		"a byte order mark before a separator":   {"\ufeff---\n" + a, []string{"a@1:2"}},
		"files with such marks put together":     {a + "\ufeff---\n" + b, []string{"a@1:1", "b@2:9"}},
		"line ends of another system":            {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"a@1:1", "b@2:9"}},
		"a YAML directive":                       {"%YAML 1.2\n---\n" + a, []string{"a@1:3"}},
		"JSON":                                   {pod("a"), []string{"a@1:1"}},
		"JSON values one after the other":        {pod("a") + pod("b") + "\n\n" + pod("c"), []string{"a@1:1", "b@2:1", "c@3:3"}},
		"JSON with separators":                   {pod("a") + "\n---\n" + pod("b") + "\n", []string{"a@1:1", "b@2:3"}},
		"JSON with a comment, which is YAML":     {pod("a") + " # a comment\n", []string{"a@1:1"}},
		"JSON and YAML":                          {pod("a") + "\n---\n" + b, []string{"a@1:1", "b@2:3"}},
		"YAML that begins with a brace":          {"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}", []string{"a@1:1"}},
		"a separator in a block scalar's text":   {"apiVersion: v1\nkind: Service\ndata:\n  x: |\n    ---\n    y\n---\n" + b, []string{"b@2:8"}},
		"a line that only begins like one":       {"apiVersion: v1\nkind: Service\n---x: y\n---\n" + b, []string{"b@2:5"}},
		"indentation by tabs, which JSON allows": {"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\n\t\t\"containers\": [{\"name\": \"c\"}]\n\t}\n}\n", []string{"a@1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, places(loadAll(t, test.text)))
		})
	}
}

func TestALineLongerThanTheReadersBufferIsOneLine(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	text := "# " + long + "\n--- # " + long + "\n" +
		fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {"x": %q}}, "spec": {"containers": [{"name": "c"}]}}`, long) +
		"\n---\n" + pod("b")
	result := loadAll(t, text)
	assert.Equal(t, []string{"a@1:3", "b@2:5"}, places(result))
	assert.Equal(t, long, result.Pods[0].Pod.Annotations["x"])
}

func TestOneBadDocumentDoesNotHideTheOthers(t *testing.T) {
	result, errs := load(t, strings.Join([]string{pod("a"), "a:\n  b: c\n d: e\nf: g", pod("b"), "kind: Pod", pod("c")}, "\n---\n"), manifest.Options{})
	assert.Equal(t, []string{"a@1:1", "b@3:8", "c@5:12"}, places(result))
	require.Len(t, errs, 2)
	assert.Equal(t, "standard input: document 2 (line 3): is not valid YAML: did not find expected key (line 5)", errs[0])
	assert.Equal(t, "standard input: document 4 (line 10): Pod: has no apiVersion", errs[1])
}

func TestTextThatIsNoManifestIsAnErrorThatSaysWhy(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a list": {"- a\n", "document 1 (line 1): is not an object with apiVersion and kind"},
		"text":   {"hello", "document 1 (line 1): is not an object with apiVersion and kind"},
		"an object of no kind": {
			"\n\na: b\n", "document 1 (line 3): has neither apiVersion nor kind"},
		"a kind that is no text": {
			"apiVersion: v1\nkind: [Pod]\n", `document 1 (line 1): field "kind" is a list, must be text (line 2)`},
		"an apiVersion of three parts": {
			"apiVersion: a/b/c\nkind: Pod\n", `document 1 (line 1): Pod: apiVersion "a/b/c" is not VERSION or GROUP/VERSION`},
		"JSON with a fault": {
			"\n{\"apiVersion\": \"v1\",\n \"kind\" \"Pod\"}", "document 1 (line 2): is not valid JSON: invalid character '\"' after object key (line 3)"},
		"JSON that is cut off": {
			`{"apiVersion": "v1"`, "document 1 (line 1): is not valid JSON: unexpected EOF (line 1)"},
		"JSON with a fault in the second value": {
			"{\"apiVersion\": \"v1\", \"kind\": \"Service\"}\n{\"kind\" \"Pod\"}", "document 2 (line 2): is not valid JSON: invalid character '\"' after object key (line 2)"},
		"YAML in braces with a fault": {
			"{a: b", "document 1 (line 1): is not valid YAML: did not find expected ',' or '}' (line 1)"},
		"text after an end marker": {
			"... foo", "document 1 (line 1): is not an object with apiVersion and kind"},
		"a document that begins where this package sees no line": {
			"apiVersion: v1\nkind: Service\r---\rapiVersion: v1\rkind: Pod\n", "document 1 (line 1): is not valid YAML: a second document begins where no line begins (line 2)"},
		"a template": {
			"apiVersion: v1\nkind: {{ .Values.kind }}\n", "document 1 (line 1): is not valid YAML: a key of a mapping is neither text nor a number; it looks like a template that has not been rendered"},
		"another encoding": {
			"\xff\xfea\x00", "the text is UTF-16; save it as UTF-8"},
		"a number that JSON lacks": {
			"apiVersion: v1\nkind: Pod\nx: .inf\n", "document 1 (line 1): is not valid YAML: json: unsupported value: +Inf"},
		"an anchor in itself": {
			"apiVersion: v1\nkind: Pod\nx: &a [*a]\n", "document 1 (line 1): is not valid YAML: anchor 'a' value contains itself"},
		"nesting without end": {
			strings.Repeat("[", 20000), "document 1 (line 1): is not valid YAML: exceeded max depth of 10000 (line 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			result, errs := load(t, test.text, manifest.Options{})
			assert.Empty(t, result.Pods)
			require.Len(t, errs, 1)
			assert.Equal(t, "standard input: "+test.want, errs[0])
		})
	}
}

func TestAFaultInYAMLDoesNotShowAValue(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nstringData:\n  ? \n  : hunter2\n",
		"apiVersion: v1\nkind: Secret\nstringData:\n  ? [hunter2]\n  : x\n",
		"apiVersion: v1\nkind: Secret\nstringData:\n  a: hunter2\n b: x\n",
	} {
		_, errs := load(t, text, manifest.Options{})
		require.Len(t, errs, 1)
		assert.NotContains(t, errs[0], "hunter2")
	}
}

func TestADocumentThatIsTooLongIsRefusedAndTheNextIsRead(t *testing.T) {
	long := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long", "annotations": {"x": %q}}, "spec": {"containers": [{"name": "c"}]}}`, strings.Repeat("x", 2000))
	result, errs := load(t, "# first\n"+long+"\n---\n"+pod("b"), manifest.Options{MaxDocumentBytes: 1000})
	assert.Equal(t, []string{"b@2:4"}, places(result))
	assert.Equal(t, []string{"standard input: document 1 (line 2): has more than 1000 bytes, the limit for one document"}, errs)

	result, errs = load(t, "# first\n"+long+"\n---\n"+pod("b"), manifest.Options{MaxDocumentBytes: 3000})
	assert.Empty(t, errs)
	assert.Equal(t, []string{"long@1:2", "b@2:4"}, places(result))
}

func TestAnObjectLongerThanTheAPIServerAcceptsIsRefused(t *testing.T) {
	long := strings.Replace(pod("a"), `"metadata": {`, `"metadata": {"annotations": {"x": "`+strings.Repeat("x", 3<<20)+`"}, `, 1)
	result, errs := load(t, long+pod("b"), manifest.Options{})
	assert.Equal(t, []string{"default/b"}, podNames(result))
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "Pod default/a: has 31458")
	assert.Contains(t, errs[0], "more than the 3145728 that Kubernetes accepts for one object")
}

func TestAliasesThatExpandWithoutEndAreRefused(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	for name, text := range map[string]string{
		"many nodes":       laughs.String(),
		"few but long":     "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n",
		"through merges":   "a: &a {x: " + strings.Repeat("x", 1<<20) + "}\nb:\n" + strings.Repeat("- <<: *a\n", 1000),
		"as keys of a map": "a: &a " + strings.Repeat("x", 1<<20) + "\nb:\n" + strings.Repeat("- *a : 1\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := load(t, "apiVersion: v1\nkind: Pod\n"+text, manifest.Options{})
			require.Len(t, errs, 1)
			assert.Equal(t, "standard input: document 1 (line 1): has aliases that expand to more than 16777216 bytes, the limit for one document", errs[0])
		})
	}
}

func TestADirectoryStandsForItsManifests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": pod("b"), "a.yml": pod("a"), "c.json": pod("c"), "d.txt": "no manifest", "e.yaml.swp": "\x00", "README": "text",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "below.yaml"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "below.yaml", "x.yaml"), []byte(pod("x")), 0o600))

	result, errs := manifest.Load(context.Background(), []string{dir}, manifest.Options{})
	require.Empty(t, errs)
	assert.Equal(t, []string{"default/a", "default/b", "default/c"}, podNames(result))
	assert.Equal(t, filepath.Join(dir, "a.yml"), result.Pods[0].Origin.File)
}

func TestFilesThatCannotBeReadAreNamedAndTheOthersAreRead(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yaml")
	require.NoError(t, os.WriteFile(good, []byte(pod("a")), 0o600))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o700))
	missing := filepath.Join(dir, "missing.yaml")

	result, errs := manifest.Load(context.Background(), []string{missing, empty, "", "-", good}, manifest.Options{})
	assert.Equal(t, []string{"default/a"}, podNames(result))
	require.Len(t, errs, 4)
	assert.ErrorIs(t, errs[0], fs.ErrNotExist)
	assert.Equal(t, 1, strings.Count(errs[0].Error(), missing), "the path is named once: %v", errs[0])
	assert.Equal(t, empty+": the directory holds no file that ends in .json, .yaml or .yml", errs[1].Error())
	assert.Equal(t, ": the path is empty", errs[2].Error())
	assert.Equal(t, "standard input: there is no standard input to read", errs[3].Error())
}

func TestStandardInputIsReadOnce(t *testing.T) {
	result, errs := manifest.Load(context.Background(), []string{"-", "-"}, manifest.Options{Stdin: strings.NewReader(pod("a"))})
	assert.Equal(t, []string{"default/a"}, podNames(result))
	assert.Equal(t, []string{"standard input: was named twice, but can be read only once"}, messages(t, errs))
}

func TestAReadErrorKeepsWhatCameBefore(t *testing.T) {
	broken := errors.New("the disk\nis on fire")
	in := io.MultiReader(strings.NewReader(pod("a")+"\n---\napiVersion: v1\nkind: Servi"), iotest.ErrReader(broken))
	result, errs := manifest.Load(context.Background(), []string{"-"}, manifest.Options{Stdin: in})
	assert.Equal(t, []string{"default/a"}, podNames(result))
	require.Len(t, errs, 1)
	assert.ErrorIs(t, errs[0], broken)
	assert.Equal(t, []string{"standard input: the disk is on fire"}, messages(t, errs))
}

func TestLoadReturnsWhenItsContextEndsThoughNobodyWrites(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan []error, 1)
	go func() {
		_, errs := manifest.Load(ctx, []string{"-"}, manifest.Options{Stdin: in})
		done <- errs
	}()
	// The write returns when Load has read it and waits for more.
	_, err := out.Write([]byte("apiVersion: v1\n"))
	require.NoError(t, err)
	cancel()
	errs := <-done
	require.Len(t, errs, 1)
	assert.ErrorIs(t, errs[0], context.Canceled)
}

func TestACancelledContextReadsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	result, errs := manifest.Load(ctx, []string{"testdata/database.yaml", "-"}, manifest.Options{Stdin: strings.NewReader(pod("a"))})
	assert.Empty(t, result.Pods)
	require.NotEmpty(t, errs)
	for _, err := range errs {
		assert.ErrorIs(t, err, context.Canceled)
	}
}

func TestARealDatabaseIsLoaded(t *testing.T) {
	result, errs := manifest.Load(context.Background(), []string{"testdata/database.yaml"}, manifest.Options{})
	require.Empty(t, errs)
	assert.Equal(t, []string{"data/db-0", "data/db-1", "data/db-2"}, podNames(result))

	db := result.Pods[1].Pod
	assert.Equal(t, manifest.Origin{File: "testdata/database.yaml", Document: 4, Line: 32, Kind: "StatefulSet", Namespace: "data", Name: "db"}, result.Pods[1].Origin)
	var volumes []string
	for _, volume := range db.Spec.Volumes {
		volumes = append(volumes, volume.Name)
	}
	assert.Equal(t, []string{"data", "conf", "config-map", "shm", "scratch"}, volumes)
	assert.Equal(t, "data-db-1", db.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	assert.Equal(t, int32(0o644), *db.Spec.Volumes[2].ConfigMap.DefaultMode)
	assert.Equal(t, "256Mi", db.Spec.Volumes[3].EmptyDir.SizeLimit.String())
	assert.NotNil(t, db.Spec.Volumes[4].EmptyDir, "a volume without a source is an emptyDir")
	hugePages := db.Spec.Containers[0].Resources.Requests[v1.ResourceHugePagesPrefix+"2Mi"]
	assert.Equal(t, "64Mi", hugePages.String(), "what is only limited is requested")
	assert.Equal(t, "500m", db.Spec.Containers[0].Resources.Requests.Cpu().String(), "what is requested stays")
	assert.Equal(t, int64(999), *db.Spec.SecurityContext.FSGroup)
}

func TestARealWebServerIsLoaded(t *testing.T) {
	result, errs := manifest.Load(context.Background(), []string{"testdata/webserver.yaml"}, manifest.Options{})
	require.Empty(t, errs)
	require.Len(t, result.Pods, 2)
	assert.Equal(t, []string{
		"testdata/webserver.yaml: document 3 (line 85): Ingress web is of no kind that makes pods or volumes",
		"testdata/webserver.yaml: document 4 (line 93): ServiceMonitor web is of no kind that makes pods or volumes",
	}, ignored(result))
	assert.Equal(t, map[string]string{"app": "web", "helm.sh/chart": "web"}, result.Pods[0].Pod.Labels, "a merged key is overridden")
}
