package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/internal/datadir"
)

func stderr() zapcore.WriteSyncer { return os.Stderr }

// klogHandler sends structured logs where Kubernetes' go, in their format.
func klogHandler() slog.Handler { return logr.ToSlogHandler(klog.Background()) }

// tell says what was made in the data directory.
func (s *Server) tell(report datadir.Report) {
	for _, c := range report.Written {
		klog.InfoS("Wrote credential", "file", c.File, "reason", c.Reason)
	}
	for _, w := range report.Warnings {
		klog.Warning(w)
	}
}

// welcome tells a newcomer what to do with a server that is ready.
func (s *Server) welcome() {
	fmt.Fprintf(s.out, "\nmillrace is ready at %s (read path: %s)\n", s.options.url(), s.options.ReadPath)
	if !s.ownsCredentials {
		return
	}
	kubeconfig := filepath.Join(s.options.DataDir, "admin.kubeconfig")
	self := "millrace"
	if len(os.Args) > 0 {
		self = os.Args[0]
	}
	fmt.Fprintf(s.out, "  kubeconfig   %s\n  try          %s kubectl get namespaces\n  or           export KUBECONFIG=%s\n\n",
		kubeconfig, self, absolute(kubeconfig))
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// explain adds to Kubernetes' errors what to do about them.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use"):
		return fmt.Errorf("%w: stop what listens there, or choose another port with --secure-port", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: make the file readable for the user that runs millrace", err)
	}
	return err
}
