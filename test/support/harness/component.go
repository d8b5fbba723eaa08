package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// StartControlPlane starts Kubernetes' controllers and its scheduler with the credentials
// that a server has made for them. They reach it through another one, or through itself.
func StartControlPlane(tb testing.TB, server, through *Server) {
	tb.Helper()
	for _, component := range []string{"controller-manager", "scheduler"} {
		kubeconfig := componentKubeconfig(tb, server, through, component)
		Command(tb, component, "--data-dir="+server.DataDir, fmt.Sprintf("--secure-port=%d", FreePort(tb)),
			"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
			"--kube-api-qps=300", "--kube-api-burst=500")
	}
}

// componentKubeconfig writes the kubeconfig of a component that leads through a server, and
// returns its name.
func componentKubeconfig(tb testing.TB, server, through *Server, component string) string {
	tb.Helper()
	user, err := clientcmd.LoadFromFile(filepath.Join(server.DataDir, component+".kubeconfig"))
	if err != nil {
		tb.Fatalf("read kubeconfig: %v", err)
	}
	way, err := clientcmd.LoadFromFile(through.Kubeconfig())
	if err != nil {
		tb.Fatalf("read kubeconfig: %v", err)
	}
	for _, to := range way.Clusters {
		for _, cluster := range user.Clusters {
			cluster.Server, cluster.CertificateAuthority, cluster.CertificateAuthorityData = through.URL, "", to.CertificateAuthorityData
		}
	}
	file := filepath.Join(tb.TempDir(), component+".kubeconfig")
	if err := clientcmd.WriteToFile(*user, file); err != nil {
		tb.Fatalf("write kubeconfig: %v", err)
	}
	return file
}

// InstallKubectl makes a program kubectl in a directory, which is Kubernetes' own out of our
// program, or another one that is named.
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
