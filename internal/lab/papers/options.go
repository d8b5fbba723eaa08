package papers

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
)

// maxScale bounds --scale: a hundred times the original fits no machine.
const maxScale = 100

// options are the flags of a paper's command.
type options struct {
	paper *Paper

	size
	readPaths     []string
	kubeAPIServer string
	server        kubeconfig.Flags // the zero value: servers are started
	millrace      string           // the program that runs servers
	serverArgs    []string
	ownComponents bool
	readyTimeout  time.Duration
	only          []string
	remove        bool // --delete

	output, from, page string
}

func formats() []string { return []string{"table", "markdown", "json"} }

// addFlags adds the flags of a paper's command. They set the fields of o.
func (o *options) addFlags(f *pflag.FlagSet) {
	f.Float64Var(&o.scale, "scale", o.paper.Scale, "multiply the paper's counts by this; 1 is the original")
	f.DurationVar(&o.duration, "duration", 0, "length of each load, and of each pause before memory is read (default: as "+
		"the paper's plan says)")
	f.StringSliceVar(&o.readPaths, "read-paths", nil, "read paths to run, in this order "+
		"(default "+testbed.ReadPathMillrace+", "+testbed.ReadPathKubernetes+", and kube-apiserver if given)")
	f.StringVar(&o.kubeAPIServer, "kube-apiserver", "", "kube-apiserver to run beside them")
	f.StringVar(&o.server.Kubeconfig, "kubeconfig", "", "measure the server of this kubeconfig, and start none")
	kubeconfig.AddContext(f, &o.server.Context)
	f.StringVar(&o.millrace, "millrace", "", "program that runs servers (default: millrace beside this program, otherwise on the PATH)")
	f.StringArrayVar(&o.serverArgs, "server-arg", nil, "further argument for every server but kube-apiserver; may be repeated")
	if slices.Contains(o.stepNames(), stepProvision) {
		f.BoolVar(&o.ownComponents, "own-components", false, "with --kubeconfig: step "+stepProvision+
			" starts the scheduler and the controller manager of millrace, for a server that has neither")
	}
	f.DurationVar(&o.readyTimeout, "ready-timeout", 5*time.Minute, "longest time until a server is ready")
	f.StringSliceVar(&o.only, "only", nil, "run only these steps, of "+strings.Join(o.stepNames(), ", "))
	f.BoolVar(&o.remove, "delete", false, "remove what an interrupted run has left at the server of --kubeconfig, and measure nothing")
	f.StringVarP(&o.output, "output", "o", "table", "one of "+strings.Join(formats(), ", "))
	f.StringVar(&o.from, "from", "", "show the report in this file, as -o json wrote it, and measure nothing")
	f.StringVar(&o.page, "report", "", "also write the report to this file, as an HTML page")
}

func (o *options) stepNames() (names []string) {
	for _, s := range o.paper.Steps {
		names = append(names, s.Name)
	}
	return names
}

// validate returns an error if flags are wrong, as far as that can be checked before a server runs.
func (o *options) validate() error {
	if !slices.Contains(formats(), o.output) {
		return fmt.Errorf("-o %s: choose one of %s", o.output, strings.Join(formats(), ", "))
	}
	if math.IsNaN(o.scale) || o.scale <= 0 || o.scale > maxScale {
		return fmt.Errorf("--scale=%g: must be above 0, and at most %d", o.scale, maxScale)
	}
	if o.duration < 0 {
		return fmt.Errorf("--duration=%s: must not be below 0", o.duration)
	}
	for _, name := range o.only {
		if !slices.Contains(o.stepNames(), name) {
			return fmt.Errorf("--only=%s: choose of %s", name, strings.Join(o.stepNames(), ", "))
		}
	}
	if err := display.CheckFile(o.page); err != nil {
		return err
	}
	if o.from != "" {
		return nil
	}
	return o.validateServers()
}

// validateServers checks the flags that choose servers, and sets the default of --read-paths.
func (o *options) validateServers() error {
	if o.kubeAPIServer != "" {
		if info, err := os.Stat(o.kubeAPIServer); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("--kube-apiserver=%s: there is no such program", o.kubeAPIServer)
		}
	}
	switch {
	case o.server.Kubeconfig == "" && o.remove:
		return errors.New("--delete needs --kubeconfig")
	case o.server.Kubeconfig == "" && o.server.Context != "":
		return errors.New("--context needs --kubeconfig")
	case o.server.Kubeconfig == "" && o.ownComponents:
		return errors.New("--own-components needs --kubeconfig: servers that a run starts always have these")
	case o.server.Kubeconfig != "" && (len(o.readPaths) > 0 || o.kubeAPIServer != "" || len(o.serverArgs) > 0):
		return errors.New("--kubeconfig measures a running server: it excludes --read-paths, --kube-apiserver and --server-arg")
	case o.server.Kubeconfig != "":
		if _, err := o.server.Load("papers"); err != nil {
			return err
		}
	case len(o.readPaths) == 0:
		o.readPaths = []string{testbed.ReadPathMillrace, testbed.ReadPathKubernetes}
		if o.kubeAPIServer != "" {
			o.readPaths = append(o.readPaths, testbed.ReadPathStock)
		}
	}
	return nil
}

// firstPodTimeout bounds the time until the first pod runs in an existing cluster. It takes a
// second or two, unless there is no scheduler.
const firstPodTimeout = time.Minute

// benchArgs returns the flags that a step gets in addition to its own.
func (o *options) benchArgs(s step) []string {
	const ready = "--ready-timeout="
	if o.server.Kubeconfig != "" {
		return append(o.existingArgs(s), ready+min(o.readyTimeout, firstPodTimeout).String())
	}
	paths := "--read-paths="
	if s.Name == stepProvision {
		paths = "--paths="
	}
	args := []string{ready + o.readyTimeout.String(), paths + strings.Join(o.readPaths, ",")}
	if o.kubeAPIServer != "" {
		args = append(args, "--kube-apiserver="+o.kubeAPIServer)
	}
	if o.millrace != "" {
		args = append(args, "--millrace="+o.millrace)
	}
	for _, arg := range o.serverArgs {
		args = append(args, "--server-arg="+arg)
	}
	return args
}

// existingArgs returns the flags of a step that measures the server of --kubeconfig.
func (o *options) existingArgs(s step) []string {
	kubeconfigFlag := "--at="
	contextFlag := "--at-context="
	if s.Name == stepProvision {
		kubeconfigFlag = "--kubeconfig="
		contextFlag = "--context="
	}
	args := []string{kubeconfigFlag + o.server.Kubeconfig}
	if o.server.Context != "" {
		args = append(args, contextFlag+o.server.Context)
	}
	if o.ownComponents && s.Name == stepProvision {
		args = append(args, "--own-components")
	}
	return args
}
