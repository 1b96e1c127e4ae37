// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// readyWithin is how long an API server may take to start on a busy machine.
const readyWithin = 3 * time.Minute

// Server is an API server with an etcd of its own.
type Server struct {
	dir, programs string
	port          int
	etcd, api     *child
}

// Start starts one whose files are in dir. The caller calls Stop, even after an error that came with a server. Users are
// "admin", who may do everything, and "agent", who may do what RBAC rules say.
func Start(dir string) (*Server, error) {
	programs, err := programs()
	if err != nil {
		return nil, err
	}
	if err := writeCertificates(dir); err != nil {
		return nil, err
	}
	tokens := "admin-token,admin,1,\"system:masters\"\nagent-token,agent,2\n"
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	s := &Server{dir: dir, programs: programs}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.etcd, err = run(filepath.Join(programs, "etcd"), filepath.Join(dir, "etcd.log"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+s.etcdURL(), "--advertise-client-urls="+s.etcdURL(), "--listen-peer-urls=unix://"+filepath.Join(dir, "peer"))
	if err != nil {
		return nil, err
	}
	return s, s.StartAPI()
}

func (s *Server) etcdURL() string { return "unix://" + filepath.Join(s.dir, "client") }

// freePort returns a port that nobody uses now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// StartAPI starts the API server, after StopAPI once more on the same port, and returns when it is ready.
func (s *Server) StartAPI() error {
	in := func(name string) string { return filepath.Join(s.dir, name) }
	var err error
	s.api, err = run(filepath.Join(s.programs, "kube-apiserver"), in("kube-apiserver.log"),
		"--etcd-servers="+s.etcdURL(), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+strconv.Itoa(s.port), "--permit-port-sharing=true",
		"--tls-cert-file="+in("server.crt"), "--tls-private-key-file="+in("server.key"), "--token-auth-file="+in("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+in("sa.key"), "--service-account-signing-key-file="+in("sa.key"),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--shutdown-delay-duration=0s", "--cert-dir="+in("certs"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(s.Config("admin"))
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, readyWithin, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.api.ended:
			return false, fmt.Errorf("it has ended: %w", s.api.err)
		default:
		}
		_, last = client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("await the API server: %w (%v)\n%s\n%s", err, last, s.api.tail(), s.etcd.tail())
	}
	return nil
}

// StopAPI kills the API server, as a crash does. What it stored is kept.
func (s *Server) StopAPI() { s.api.kill() }

// Stop kills both. It may be called for a server whose start has failed.
func (s *Server) Stop() {
	if s.api != nil {
		s.api.kill()
	}
	if s.etcd != nil {
		s.etcd.kill()
	}
}

// Config is for clients of that user. It limits no rate.
func (s *Server) Config(user string) *rest.Config {
	return &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(s.port), BearerToken: user + "-token", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(s.dir, "server.crt")},
	}
}
