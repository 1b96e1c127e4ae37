// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/volumekit/volumekit/e2e/internal/controlplane"
	"github.com/volumekit/volumekit/objects/cluster"
	"github.com/volumekit/volumekit/volume"
)

var server *controlplane.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(withServer{m}) }

// withServer are the tests while there is a server.
type withServer struct{ *testing.M }

func (w withServer) Run() int {
	dir, err := os.MkdirTemp("", "vk")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err = controlplane.Start(dir)
	if server != nil {
		defer server.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return w.M.Run()
}

// soon is how long something may take on a busy machine.
const soon = time.Minute

// scene is a namespace of one test, in which the agent may get and watch some objects by name, and list nothing.
type scene struct {
	t         *testing.T
	namespace string
	admin     kubernetes.Interface
	source    *cluster.Cluster
}

func newScene(t *testing.T, options cluster.Options, rules ...rbacv1.PolicyRule) *scene {
	t.Helper()
	client := func(user string) kubernetes.Interface {
		client, err := kubernetes.NewForConfig(server.Config(user))
		require.NoError(t, err)
		return client
	}
	s := &scene{t: t, admin: client("admin")}
	ctx := t.Context()
	namespace, err := s.admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.namespace = namespace.Name
	agent := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "agent"}}
	name := metav1.ObjectMeta{Name: s.namespace + "-agent"}
	_, err = s.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}
	_, err = s.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: agent, RoleRef: role}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		// What one test may do, the next may not.
		_ = s.admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), name.Name, metav1.DeleteOptions{})
	})
	s.source = cluster.New(client("agent"), options)
	t.Cleanup(s.source.Close)
	for _, rule := range rules {
		s.awaitAllowed(client("agent"), rule)
	}
	return s
}

// awaitAllowed waits until the API server has taken in the rule, which it does a moment after it has stored it.
func (s *scene) awaitAllowed(agent kubernetes.Interface, rule rbacv1.PolicyRule) {
	s.t.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: rule.Verbs[0]}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, soon, true, func(ctx context.Context) (bool, error) {
		answer, err := agent.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	require.NoError(s.t, err)
}

func named(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{"get", "watch"}}
}

func (s *scene) setSecret(name, value string) {
	s.t.Helper()
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"key": []byte(value)}}
	client := s.admin.CoreV1().Secrets(s.namespace)
	_, err := client.Update(s.t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		_, err = client.Create(s.t.Context(), secret, metav1.CreateOptions{})
	}
	require.NoError(s.t, err)
}

// value is what the source says that the secret holds, or why it does not.
func (s *scene) value(name string) (string, error) {
	secret, err := s.source.Secret(s.t.Context(), s.namespace, name)
	if err != nil {
		return "", err
	}
	return string(secret.Data["key"]), nil
}

// await waits until done says so, and asks it only when told tells.
func await(t *testing.T, told <-chan struct{}, done func() bool, what string) {
	t.Helper()
	timeout := time.After(soon)
	for !done() {
		select {
		case <-told:
		case <-timeout:
			t.Fatal("not told: " + what)
		}
	}
}

func (s *scene) watch(ref volume.Reference) <-chan struct{} {
	s.t.Helper()
	told := make(chan struct{}, 1)
	stop, ok := s.source.Watch(ref, func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	require.True(s.t, ok)
	s.t.Cleanup(stop)
	return told
}

func (s *scene) secretRef(name string) volume.Reference {
	return volume.Reference{Kind: volume.KindSecret, Namespace: s.namespace, Name: name}
}

func TestASecretIsFollowedThroughItsLife(t *testing.T) {
	s := newScene(t, cluster.Options{}, named("secrets", "db"))
	told := s.watch(s.secretRef("db"))
	_, err := s.value("db")
	require.ErrorIs(t, err, volume.ErrNotFound)
	holds := func(want string) func() bool {
		return func() bool { value, err := s.value("db"); return err == nil && value == want }
	}
	gone := func() bool { _, err := s.value("db"); return err != nil && assert.ErrorIs(t, err, volume.ErrNotFound) }
	for _, value := range []string{"1", "2"} {
		s.setSecret("db", value)
		await(t, told, holds(value), value)
	}
	require.NoError(t, s.admin.CoreV1().Secrets(s.namespace).Delete(t.Context(), "db", metav1.DeleteOptions{}))
	await(t, told, gone, "it is gone")
	s.setSecret("db", "3")
	await(t, told, holds("3"), "it is there again")
}

func TestAnAPIServerThatIsAwayIsNoReasonToSayNotFound(t *testing.T) {
	s := newScene(t, cluster.Options{}, named("secrets", "db", "absent"))
	s.setSecret("db", "1")
	told := s.watch(s.secretRef("db"))
	s.watch(s.secretRef("absent"))
	_, err := s.value("absent")
	require.ErrorIs(t, err, volume.ErrNotFound)
	// Until an event comes, it is not sure that the watch has begun.
	s.setSecret("db", "2")
	await(t, told, func() bool { value, err := s.value("db"); return err == nil && value == "2" }, "2")
	server.StopAPI()
	started := false
	defer func() {
		if !started {
			_ = server.StartAPI()
		}
	}()
	value, err := s.value("db")
	require.NoError(t, err, "what the watch told is still known")
	assert.Equal(t, "2", value)
	_, err = s.value("absent")
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.NotErrorIs(t, err, volume.ErrNotFound)
	_, err = s.source.ConfigMap(t.Context(), s.namespace, "never-asked-for")
	require.ErrorIs(t, err, volume.ErrUncertain)
	started = true
	require.NoError(t, server.StartAPI())
	s.setSecret("db", "3")
	await(t, told, func() bool { value, err := s.value("db"); return err == nil && value == "3" }, "3, after the API server has started again")
}

func TestWhatMayNotBeSeenIsNotSaidToBeAbsent(t *testing.T) {
	s := newScene(t, cluster.Options{}, named("secrets", "db"))
	s.setSecret("other", "1")
	_, err := s.value("other")
	require.Error(t, err)
	require.NotErrorIs(t, err, volume.ErrNotFound)
	assert.ErrorContains(t, err, "forbidden")
}

func TestAThousandReferencesAreFollowed(t *testing.T) {
	const many = 1000
	names := make([]string, many)
	for i := range many {
		names[i] = fmt.Sprintf("s%d", i)
	}
	s := newScene(t, cluster.Options{}, named("secrets", names...))
	told := make(chan struct{}, 1)
	var changes atomic.Int64
	for _, name := range names {
		s.setSecret(name, "1")
		stop, ok := s.source.Watch(s.secretRef(name), func() {
			changes.Add(1)
			select {
			case told <- struct{}{}:
			default:
			}
		})
		require.True(t, ok)
		defer stop()
		value, err := s.value(name)
		require.NoError(t, err)
		require.Equal(t, "1", value)
	}
	begun := changes.Load()
	for _, name := range names {
		s.setSecret(name, "2")
	}
	await(t, told, func() bool {
		for _, name := range names {
			if value, err := s.value(name); err != nil || value != "2" {
				return false
			}
		}
		return true
	}, "all are new")
	t.Logf("%d calls of changed at the start, %d for %d changes", begun, changes.Load()-begun, many)
}

func TestATokenIsOneThatTheAPIServerAccepts(t *testing.T) {
	s := newScene(t, cluster.Options{}, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"robot", "nobody"}, Verbs: []string{"create"},
	})
	ctx := t.Context()
	_, err := s.admin.CoreV1().ServiceAccounts(s.namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := s.source.ServiceAccountToken(ctx, s.namespace, "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"https://kubernetes.default.svc"}}})
	require.NoError(t, err)
	review, err := s.admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: answer.Status.Token}}, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.True(t, review.Status.Authenticated, review.Status.Error)
	assert.Equal(t, "system:serviceaccount:"+s.namespace+":robot", review.Status.User.Username)
	_, err = s.source.ServiceAccountToken(ctx, s.namespace, "nobody", &authenticationv1.TokenRequest{})
	require.ErrorIs(t, err, volume.ErrNotFound)
	tooShort := int64(1)
	_, err = s.source.ServiceAccountToken(ctx, s.namespace, "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &tooShort}})
	require.ErrorIs(t, err, volume.ErrInvalid)
}

func TestClaimsAndVolumesAreFollowed(t *testing.T) {
	s := newScene(t, cluster.Options{}, named("persistentvolumeclaims", "claim"), named("persistentvolumes", "pv-of-the-claim"))
	ctx := t.Context()
	told := s.watch(volume.Reference{Kind: volume.KindPersistentVolumeClaim, Namespace: s.namespace, Name: "claim"})
	_, err := s.source.PersistentVolumeClaim(ctx, s.namespace, "claim")
	require.ErrorIs(t, err, volume.ErrNotFound)
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := s.admin.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	await(t, told, func() bool { _, err := s.source.PersistentVolumeClaim(ctx, s.namespace, "claim"); return err == nil }, "the claim")
	claim.Spec.VolumeName = "pv-of-the-claim"
	_, err = s.admin.CoreV1().PersistentVolumeClaims(s.namespace).Update(ctx, claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	await(t, told, func() bool {
		found, err := s.source.PersistentVolumeClaim(ctx, s.namespace, "claim")
		return err == nil && found.Spec.VolumeName == "pv-of-the-claim"
	}, "it is bound")
	_, err = s.admin.CoreV1().PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-of-the-claim"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/decoy"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	found, err := s.source.PersistentVolume(ctx, "pv-of-the-claim")
	require.NoError(t, err)
	assert.Equal(t, "/decoy", found.Spec.HostPath.Path)
}

func TestTrustBundlesAreFollowed(t *testing.T) {
	s := newScene(t, cluster.Options{}, rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"clustertrustbundles"}, Verbs: []string{"get", "list", "watch"}})
	ctx := t.Context()
	told := s.watch(volume.Reference{Kind: volume.KindClusterTrustBundle, Name: "roots"})
	_, err := s.source.ClusterTrustBundle(ctx, "roots")
	require.ErrorIs(t, err, volume.ErrNotFound)
	content, err := os.ReadFile(server.Config("admin").CAFile)
	require.NoError(t, err)
	client := s.admin.CertificatesV1().ClusterTrustBundles()
	_, err = client.Create(ctx, &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "roots", Labels: map[string]string{"a": "b"}}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(content)}}, metav1.CreateOptions{})
	require.NoError(t, err)
	await(t, told, func() bool { _, err := s.source.ClusterTrustBundle(ctx, "roots"); return err == nil }, "the bundle")
	for selector, want := range map[string]int{"a=b": 1, "a=c": 0} {
		parsed, err := labels.Parse(selector)
		require.NoError(t, err)
		found, err := s.source.ClusterTrustBundles(ctx, "", parsed)
		require.NoError(t, err)
		assert.Len(t, found, want, selector)
	}
	require.NoError(t, client.Delete(ctx, "roots", metav1.DeleteOptions{}))
	await(t, told, func() bool { _, err := s.source.ClusterTrustBundle(ctx, "roots"); return err != nil }, "it is gone")
	_, err = s.source.ClusterTrustBundle(ctx, "roots")
	require.ErrorIs(t, err, volume.ErrNotFound)
}
