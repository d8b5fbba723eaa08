package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// StartControlPlane starts Kubernetes' controllers and its scheduler with the credentials that
// server has made for them. Their requests go to through, which may be server itself.
func StartControlPlane(tb testing.TB, server, through *Server) {
	tb.Helper()
	for _, component := range []string{"controller-manager", "scheduler"} {
		kubeconfig := componentKubeconfig(tb, server, through, component)
		Command(tb, component, "--data-dir="+server.DataDir, fmt.Sprintf("--secure-port=%d", FreePort(tb)),
			"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
			"--kube-api-qps=300", "--kube-api-burst=500")
	}
}

// componentKubeconfig writes a kubeconfig with a component's credentials that leads to through,
// and returns its file name.
func componentKubeconfig(tb testing.TB, server, through *Server, component string) string {
	tb.Helper()
	user, err := clientcmd.LoadFromFile(filepath.Join(server.DataDir, component+".kubeconfig"))
	if err != nil {
		tb.Fatalf("read kubeconfig: %v", err)
	}
	admin, err := clientcmd.LoadFromFile(through.Kubeconfig())
	if err != nil {
		tb.Fatalf("read kubeconfig: %v", err)
	}
	for _, to := range admin.Clusters {
		for _, cluster := range user.Clusters {
			cluster.Server = through.URL
			cluster.CertificateAuthority = ""
			cluster.CertificateAuthorityData = to.CertificateAuthorityData
		}
	}
	file := filepath.Join(tb.TempDir(), component+".kubeconfig")
	if err := clientcmd.WriteToFile(*user, file); err != nil {
		tb.Fatalf("write kubeconfig: %v", err)
	}
	return file
}

// InstallKubectl writes a program kubectl to a directory, and returns its file name. It runs the
// given program, or with "" the kubectl in our own program.
func InstallKubectl(tb testing.TB, dir, program string) (file string) {
	tb.Helper()
	call := "exec " + program
	if program == "" {
		own, err := os.Executable()
		if err != nil {
			tb.Fatalf("install kubectl: %v", err)
		}
		call = "exec env " + AsProgram + " " + own + " kubectl"
	}
	file = filepath.Join(dir, "kubectl")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+call+` "$@"`+"\n"), 0o700); err != nil {
		tb.Fatalf("install kubectl: %v", err)
	}
	return file
}
