// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/volumekit/volumekit/internal/callback"
	"github.com/volumekit/volumekit/volume"
)

// server is an HTTP server that answers as a test wants, in the words of an API server.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	answer   func(w http.ResponseWriter, r *http.Request)
	requests []string
}

func newServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (*server, kubernetes.Interface) {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.String())
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	transport := &http.Transport{}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, Transport: transport, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	return s, client
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

func respond(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	respond(w, int(status.Code), status)
}

var secrets = schema.GroupResource{Resource: "secrets"}

func newCluster(t *testing.T, client kubernetes.Interface, options Options) *Cluster {
	t.Helper()
	c := New(client, options)
	t.Cleanup(c.Close)
	return c
}

func TestAnAnswerHasTheKindThatItStandsFor(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   error // nil for one of no kind
	}{
		"not found":               {func(w http.ResponseWriter) { refuse(w, apierrors.NewNotFound(secrets, "db")) }, volume.ErrNotFound},
		"another is not found":    {func(w http.ResponseWriter) { refuse(w, apierrors.NewNotFound(secrets, "other")) }, volume.ErrUncertain},
		"nobody serves the path":  {func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }, volume.ErrUncertain},
		"a proxy says so in JSON": {func(w http.ResponseWriter) { respond(w, http.StatusNotFound, map[string]string{"error": "no route"}) }, volume.ErrUncertain},
		"forbidden":               {func(w http.ResponseWriter) { refuse(w, apierrors.NewForbidden(secrets, "db", nil)) }, nil},
		"a timeout":               {func(w http.ResponseWriter) { refuse(w, apierrors.NewTimeoutError("slow", 0)) }, volume.ErrUncertain},
		"an internal error":       {func(w http.ResponseWriter) { http.Error(w, "oops", http.StatusInternalServerError) }, volume.ErrUncertain},
		"a bad gateway":           {func(w http.ResponseWriter) { http.Error(w, "oops", http.StatusBadGateway) }, volume.ErrUncertain},
		"a bad request":           {func(w http.ResponseWriter) { refuse(w, apierrors.NewBadRequest("no")) }, volume.ErrInvalid},
		"a broken connection":     {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, volume.ErrUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := newServer(t, func(w http.ResponseWriter, _ *http.Request) { test.answer(w) })
			c := newCluster(t, client, Options{Live: []volume.ObjectKind{volume.KindSecret}})
			_, err := c.Secret(t.Context(), "shop", "db")
			require.Error(t, err)
			assert.ErrorContains(t, err, "Secret shop/db")
			for _, kind := range []error{volume.ErrNotFound, volume.ErrUncertain, volume.ErrInvalid, volume.ErrNotSupported} {
				assert.Equal(t, kind == test.want, errors.Is(err, kind), "%v: %v", kind, err)
			}
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{}, 10)
	_, client := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	c := newCluster(t, client, Options{Live: []volume.ObjectKind{volume.KindSecret}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := c.Secret(ctx, "shop", "db")
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.ErrorIs(t, err, context.Canceled)
	_, err = c.Secret(ctx, "shop", "db")
	require.ErrorIs(t, err, volume.ErrUncertain)
}

func TestHalfANameIsRefusedAndNeverAsked(t *testing.T) {
	s, client := newServer(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) })
	c := newCluster(t, client, Options{})
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"a secret without a name":      func() error { _, err := c.Secret(ctx, "shop", ""); return err },
		"a secret without a namespace": func() error { _, err := c.Secret(ctx, "", "db"); return err },
		"a config map without a name":  func() error { _, err := c.ConfigMap(ctx, "shop", ""); return err },
		"a claim without a namespace":  func() error { _, err := c.PersistentVolumeClaim(ctx, "", "c"); return err },
		"a volume without a name":      func() error { _, err := c.PersistentVolume(ctx, ""); return err },
		"a node without a name":        func() error { _, err := c.Node(ctx, ""); return err },
		"a bundle without a name":      func() error { _, err := c.ClusterTrustBundle(ctx, ""); return err },
		"a token without an account": func() error {
			_, err := c.ServiceAccountToken(ctx, "shop", "", &authenticationv1.TokenRequest{})
			return err
		},
		"a certificate without namespace": func() error { _, err := c.PodCertificate(ctx, &certificatesv1.PodCertificateRequest{}); return err },
	} {
		require.ErrorIs(t, ask(), volume.ErrInvalid, name)
	}
	for _, ref := range []volume.Reference{
		{Kind: volume.KindSecret, Namespace: "shop"}, {Kind: volume.KindSecret, Name: "db"}, {Kind: volume.KindPersistentVolume, Namespace: "shop", Name: "pv"},
		{Kind: volume.KindPersistentVolume}, {Kind: "Pod", Namespace: "shop", Name: "web"}, {Kind: volume.KindClusterTrustBundle, Namespace: "shop", Name: "b"},
	} {
		_, ok := c.Watch(ref, func() {})
		assert.False(t, ok, ref)
	}
	assert.Empty(t, s.seen())
}

// inMemory answers requests without a network, so that a test can have its own time. A watch stays open and tells nothing.
type inMemory func(r *http.Request) any

func (answer inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		recorder := httptest.NewRecorder()
		respond(recorder, http.StatusOK, answer(r))
		return recorder.Result(), nil
	}
	body, open := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = open.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

func TestAnObjectIsWatchedUntilSomeTimeAfterItsLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: "http://api", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			Transport: inMemory(func(*http.Request) any {
				return v1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
			}),
		})
		require.NoError(t, err)
		c := New(client, Options{Linger: time.Minute})
		defer c.Close()
		after := func(d time.Duration) int {
			time.Sleep(d)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.entries)
		}
		use := func() {
			_, err := c.Secret(t.Context(), "shop", "db")
			require.NoError(t, err)
		}
		use()
		assert.Equal(t, 1, after(40*time.Second))
		use()
		assert.Equal(t, 1, after(40*time.Second), "it was used since")
		assert.Equal(t, 0, after(20*time.Second))
		ref := volume.Reference{Kind: volume.KindSecret, Namespace: "shop", Name: "db"}
		stop, ok := c.Watch(ref, func() {})
		require.True(t, ok)
		assert.Equal(t, 1, after(time.Hour), "somebody watches it")
		stop()
		stop()
		assert.Equal(t, 1, after(59*time.Second))
		assert.Equal(t, 0, after(time.Second))
		c.Close()
		_, ok = c.Watch(ref, func() {})
		assert.False(t, ok)
		use()
		assert.Equal(t, 0, after(0))
	})
}

// heard is an entry without a reflector, which the test plays.
func heard(told *int) *entry {
	e := &entry{ref: volume.Reference{Kind: volume.KindSecret, Namespace: "shop", Name: "db"}, watches: make(map[*callback.Callback]struct{})}
	e.watches[callback.New(func() { *told++ })] = struct{}{}
	return e
}

func version(uid types.UID, version string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: uid, ResourceVersion: version}}
}

func TestWatchersAreToldWhenWhatTheyKnowIsNoLongerSo(t *testing.T) {
	always := func() bool { return true }
	for name, test := range map[string]struct {
		do   func(e *entry)
		want int
		at   string // the version that is known in the end, "" for none
	}{
		"nobody has asked":                     {func(e *entry) { _ = e.Replace([]any{version("a", "5")}, "5") }, 0, "5"},
		"somebody had no answer":               {func(e *entry) { e.noAnswer(0); _ = e.Replace([]any{version("a", "5")}, "5") }, 1, "5"},
		"the watch begins with what was asked": {func(e *entry) { e.hear(version("a", "5"), always); _ = e.Replace([]any{version("a", "5")}, "5") }, 0, "5"},
		"it begins with something newer":       {func(e *entry) { e.hear(version("a", "5"), always); _ = e.Replace([]any{version("a", "6")}, "6") }, 1, "6"},
		"it begins with nothing, as was asked": {func(e *entry) { e.hear(nil, always); _ = e.Replace(nil, "5") }, 0, ""},
		"it begins when it is gone":            {func(e *entry) { e.hear(version("a", "5"), always); _ = e.Replace(nil, "6") }, 1, ""},
		"an event is older than an answer":     {func(e *entry) { e.hear(version("a", "7"), always); _ = e.Update(version("a", "6")) }, 0, "7"},
		"an answer is newer than what was known": {func(e *entry) {
			_ = e.Replace(nil, "5")
			e.hear(version("a", "6"), always)
			_ = e.Add(version("a", "6"))
		}, 1, "6"},
		"it is made again":           {func(e *entry) { e.hear(version("a", "5"), always); _ = e.Add(version("b", "4")) }, 1, "4"},
		"an earlier one was deleted": {func(e *entry) { e.hear(version("b", "6"), always); _ = e.Delete(version("a", "5")) }, 0, "6"},
		"it was deleted":             {func(e *entry) { e.hear(version("a", "5"), always); _ = e.Delete(version("a", "6")) }, 1, ""},
		"the server drops the selector": {func(e *entry) {
			_ = e.Replace(nil, "1")
			_ = e.Add(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}})
		}, 0, ""},
		"the API server goes back a week": {func(e *entry) { e.hear(version("a", "7"), always); _ = e.Replace([]any{version("a", "3")}, "3") }, 1, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			e := heard(&told)
			test.do(e)
			assert.Equal(t, test.want, told)
			at := ""
			if e.object != nil {
				at = e.object.GetResourceVersion()
			}
			assert.Equal(t, test.at, at)
		})
	}
}

func TestAnAnswerThatAnEventOvertookIsAskedForAgain(t *testing.T) {
	told := 0
	e := heard(&told)
	require.NoError(t, e.Replace(nil, "1"))
	asked := 0
	_, client := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if asked == 1 {
			// It is made and deleted while the first answer, from before, is on its way.
			_ = e.Add(version("a", "5"))
			_ = e.Delete(version("a", "6"))
			respond(w, http.StatusOK, version("a", "5"))
			return
		}
		refuse(w, apierrors.NewNotFound(secrets, "db"))
	})
	_, err := e.find(t.Context(), New(client, Options{}))
	require.ErrorIs(t, err, volume.ErrNotFound)
	assert.Equal(t, 2, asked)
}

func TestACertificateIsAwaited(t *testing.T) {
	request := &certificatesv1.PodCertificateRequest{
		TypeMeta: metav1.TypeMeta{Kind: "PodCertificateRequest", APIVersion: "certificates.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "req-"},
		Spec: certificatesv1.PodCertificateRequestSpec{PodName: "web", NodeName: "node-1", NodeUID: "uid-node-1", ServiceAccountUID: "uid-default"},
	}
	for _, decision := range []string{"Issued", "Denied", "Failed", "deleted", "never"} {
		t.Run(decision, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			made := request.DeepCopy()
			made.Name, made.UID, made.ResourceVersion = "req-1", "1", "5"
			decided := made.DeepCopy()
			decided.ResourceVersion = "6"
			decided.Status.Conditions = []metav1.Condition{{Type: decision, Status: metav1.ConditionTrue}}
			s, client := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					respond(w, http.StatusCreated, made)
				case r.URL.Query().Get("watch") == "":
					respond(w, http.StatusOK, made)
				case decision == "never":
					cancel()
					<-r.Context().Done()
				case decision == "deleted":
					respond(w, http.StatusOK, map[string]any{"type": "DELETED", "object": made})
				default:
					respond(w, http.StatusOK, map[string]any{"type": "MODIFIED", "object": decided})
				}
			})
			c := newCluster(t, client, Options{})
			answer, err := c.PodCertificate(ctx, request)
			switch decision {
			case "never":
				require.ErrorIs(t, err, volume.ErrUncertain)
				require.ErrorIs(t, err, context.Canceled)
				assert.ErrorContains(t, err, "shop/req-1")
			case "deleted":
				assert.ErrorContains(t, err, "shop/req-1 was deleted")
			default:
				require.NoError(t, err)
				assert.Equal(t, decision, answer.Status.Conditions[0].Type)
			}
			watch := s.seen()[2]
			assert.True(t, strings.Contains(watch, "metadata.name%3Dreq-1") && strings.Contains(watch, "spec.nodeName%3Dnode-1") && strings.Contains(watch, "resourceVersion=5"), watch)
		})
	}
}

func TestListersSayNotFoundOnlyOnceTheyHaveSynced(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	bundles := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	require.NoError(t, indexer.Add(version("a", "1")))
	require.NoError(t, bundles.Add(&certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "s"}}))
	synced := false
	l := FromListers(Listers{
		Synced: func() bool { return synced }, Secrets: corelisters.NewSecretLister(indexer), ClusterTrustBundles: certificateslisters.NewClusterTrustBundleLister(bundles),
	})
	host := l.Fill(volume.Host{})
	assert.Nil(t, host.ConfigMaps)
	assert.Nil(t, host.Claims)
	assert.Nil(t, host.Nodes)
	for range 2 {
		_, err := l.Secret(t.Context(), "shop", "db")
		require.NoError(t, err)
		want := volume.ErrUncertain
		if synced {
			want = volume.ErrNotFound
		}
		_, err = l.Secret(t.Context(), "shop", "other")
		require.ErrorIs(t, err, want)
		_, err = l.ClusterTrustBundle(t.Context(), "other")
		require.ErrorIs(t, err, want)
		found, err := l.ClusterTrustBundles(t.Context(), "s", labels.Everything())
		if synced {
			require.NoError(t, err)
			assert.Len(t, found, 1)
		} else {
			require.ErrorIs(t, err, want)
		}
		_, err = l.ConfigMap(t.Context(), "shop", "db")
		require.ErrorIs(t, err, volume.ErrNotSupported)
		synced = true
	}
}

func TestTheUIDsThatACertificateNeedsAreFilledIn(t *testing.T) {
	var made certificatesv1.PodCertificateRequest
	_, client := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&made))
			made.Name, made.UID = "req-1", "1"
			made.Status.Conditions = []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue}}
			respond(w, http.StatusCreated, &made)
		case strings.Contains(r.URL.Path, "/namespaces/shop/serviceaccounts/robot"):
			respond(w, http.StatusOK, &v1.ServiceAccount{TypeMeta: metav1.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{UID: "uid-robot"}})
		case strings.Contains(r.URL.Path, "/nodes/node-1"):
			respond(w, http.StatusOK, &v1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{UID: "uid-node-1"}})
		default:
			respond(w, http.StatusOK, &made)
		}
	})
	request := &certificatesv1.PodCertificateRequest{
		TypeMeta: metav1.TypeMeta{Kind: "PodCertificateRequest", APIVersion: "certificates.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
		Spec: certificatesv1.PodCertificateRequestSpec{PodName: "web", NodeName: "node-1", ServiceAccountName: "robot"},
	}
	_, err := newCluster(t, client, Options{}).PodCertificate(t.Context(), request)
	require.NoError(t, err)
	assert.EqualValues(t, "uid-robot", made.Spec.ServiceAccountUID)
	assert.EqualValues(t, "uid-node-1", made.Spec.NodeUID)
	assert.Empty(t, request.Spec.NodeUID, "the request of who asks stays as it is")
}
