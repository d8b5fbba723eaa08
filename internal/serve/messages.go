package serve

import (
	"fmt"
	"path/filepath"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/conn/datadir"
)

// logCredentials logs the changes to the data directory, and its warnings.
func (s *Server) logCredentials(report datadir.Report) {
	for _, c := range report.Written {
		s.logger.Info("Wrote credential", "file", c.File, "reason", c.Reason)
	}
	for _, w := range report.Warnings {
		s.options.Warn(s.out, s.logger, w)
	}
}

// printWelcome prints the address of a server that is ready, and how to use it.
func (s *Server) printWelcome() {
	fmt.Fprintf(s.out, "\nmillrace is ready at %s (read path: %s)\n", s.options.URL(), s.options.ReadPath)
	if !s.kubeconfigFits {
		return
	}
	kubeconfig := filepath.Join(s.options.DataDir, "admin.kubeconfig")
	fmt.Fprintf(s.out, "  kubeconfig   %s\n  try          %s kubectl get namespaces\n  or           export KUBECONFIG=%s\n",
		kubeconfig, program.Name(), absolute(kubeconfig))
	if ReadPath(s.options.ReadPath) == ReadPathMillrace {
		fmt.Fprintf(s.out, "  page         %s kubectl proxy, then http://127.0.0.1:8001/millrace/\n", program.Name())
	}
	fmt.Fprintln(s.out)
}

// absolute returns path as an absolute one, or unchanged if the working directory is unknown.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
