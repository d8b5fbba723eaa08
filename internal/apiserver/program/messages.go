package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/tier/source"
)

// NewLogger makes a logger that writes where Kubernetes' own logs go, in their
// format and as their flags say. Components get it in their Config.
func NewLogger() *slog.Logger { return slog.New(logr.ToSlogHandler(klog.Background())) }

// startedAs is os.Args[0] as the process was started, or millrace if there is none. Package
// internal/cli/server changes os.Args later.
var startedAs = slices.Concat(os.Args, []string{"millrace"})[0]

// Name returns the program as a user calls it, for advice: os.Args[0] as the process was
// started. Under the name kube-apiserver the program has no other commands, so Name returns
// millrace then.
func Name() string {
	if filepath.Base(startedAs) == "kube-apiserver" {
		return "millrace"
	}
	return startedAs
}

// PrintStart prints where the log is, if it is a file. Otherwise the user would see nothing before
// the server is ready.
func (o *Options) PrintStart(out io.Writer) {
	if o.LogFile != "" {
		fmt.Fprintf(out, "millrace starts; the log is %s\n", o.LogFile)
	}
}

// Warn logs what the user can change. If the log goes to a file, Warn prints it to out as well.
func (o *Options) Warn(out io.Writer, logger *slog.Logger, message string) {
	logger.Warn(message)
	if o.LogFile != "" {
		fmt.Fprintf(out, "Warning: %s\n", message)
	}
}

// Explain adds advice to an error of Kubernetes: which flag to check or what to change.
func (o *Options) Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use"):
		return fmt.Errorf("%w: stop what listens there, or choose another port with --secure-port", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL) || strings.Contains(err.Error(), "cannot assign requested address"):
		return fmt.Errorf("%w: give an address of this machine with --bind-address", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: make the file readable for the user that runs millrace", err)
	case errors.Is(err, kube.ErrEtcdLost), strings.Contains(err.Error(), context.DeadlineExceeded.Error()):
		return fmt.Errorf("%w: %s", err, source.CheckEtcdFlags)
	}
	if flags := o.flagsWithValueIn(err.Error()); len(flags) > 0 {
		return fmt.Errorf("%w: check %s", err, strings.Join(flags, " and "))
	}
	return fmt.Errorf("%w: see millrace %s --help", err, o.command)
}

// flagsWithValueIn returns the flags that the user or SetDefault has set, and whose values occur
// in text. Only flags of type string count, from three bytes on: other values occur by chance.
func (o *Options) flagsWithValueIn(text string) []string {
	var flags []string
	o.flags.Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); len(value) > 2 && f.Value.Type() == "string" && strings.Contains(text, value) {
			flags = append(flags, "--"+f.Name)
		}
	})
	return flags
}
