package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/price"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/internal/tool/useragent"
)

// Options is what a replay depends on, apart from the log and the servers.
type Options struct {
	// Speed is how many times as fast as in the log requests are sent.
	Speed float64 `json:"speed"`
	// Duration ends the replay early. 0: the log ends it.
	Duration time.Duration `json:"duration,omitempty"`
	// Impersonate sends requests in the name of the log's users.
	Impersonate bool `json:"impersonate,omitempty"`
	// Connections is the number of connections that all instances share. MaxInFlight bounds the
	// requests that wait for answers, without watches.
	Connections int `json:"connections"`
	MaxInFlight int `json:"maxInFlight"`
	// Writes is WritesNone or WritesOwnNamespaces.
	Writes string `json:"writes,omitempty"`
	// LogWrapper is how logs wrap events.
	LogWrapper auditlog.Wrapper `json:"logForm,omitempty"`
	// Encodings are the encodings that programs ask for, by the name of the program. They override
	// what package useragent assumes.
	Encodings map[string]string `json:"forms,omitempty"`
}

const longHelp = `Send the requests of an audit log to an API server: the same clients, requests and
rates, and watches for as long as they lasted. Writes are not sent, or with
--writes=own-namespaces to objects of replay's own, which --delete removes.

The log may be of another cluster: resource versions and continue tokens are replaced
by those that the server answers with. GETs of objects that are not there are answered
with 404; millrace-lab fill makes a cluster of a size. A log does not say which encoding
clients ask for: it is guessed from the name of the program, or named with --form.

All requests are sent as the user of the kubeconfig, with the log's user agents.
--impersonate sends them in the name of the log's users, so that the server's rights,
fairness and audit log see the same clients. That user needs the right to impersonate
users, groups, serviceaccounts and userextras.

With --writes=own-namespaces and --delete, ~/.kube/config is not used unless it is named.`

const examples = `  millrace-tools replay /var/log/kubernetes/audit --kubeconfig test.kubeconfig
  millrace-tools replay audit.log --writes own-namespaces --kubeconfig test.kubeconfig
  millrace-tools replay audit.log.gz --speed 10 --duration 1m
  millrace-tools replay audit.log --kubeconfig stock.kubeconfig --compare replica.kubeconfig --report page.html
  kubectl exec -n kube-system kube-apiserver-1 -- cat /var/log/audit.log | millrace-tools replay - --impersonate`

// flags has the options, and the flags that decide where to send and how to print.
type flags struct {
	Options
	server                kubeconfig.Flags
	compare, output, from string
	page                  string
	remove                bool
	top                   int
}

// NewCommand returns the command "replay". version is Millrace's.
func NewCommand(version string) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "replay LOG...", Short: "Send the requests of an audit log to an API server, as fast as they came or " +
			"faster", Long: longHelp, Example: examples,
		Args: func(_ *cobra.Command, args []string) error {
			switch other := f.from != "" || f.remove; {
			case len(args) == 0 && !other:
				return errors.New("name a log, a directory of logs, or - for the standard input")
			case len(args) > 0 && other:
				return errors.New("--from and --delete send nothing: leave out the log, or them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			return f.execute(ctx, cmd, args, version)
		},
	}
	set := cmd.Flags()
	f.server.AddTo(set)
	set.StringVar(&f.compare, "compare", "", "kubeconfig of a second server, which gets the same requests when the first server is done")
	set.Float64Var(&f.Speed, "speed", 1, "how much faster than in the log time passes; watches are shorter too")
	set.DurationVar(&f.Duration, "duration", 0, "end after this time (default when the log ends)")
	set.BoolVar(&f.Impersonate, "impersonate", false, "send requests in the name of the log's users")
	set.StringVar(&f.Writes, "writes", WritesNone,
		"none, or own-namespaces: writes of the log become writes of such objects in namespaces of replay's own, as the kubeconfig's user")
	set.BoolVar(&f.remove, "delete", false, "remove the namespaces that replays with writes have made, and send nothing")
	set.IntVar(&f.Connections, "connections", 100, "connections that the log's instances share")
	set.IntVar(&f.MaxInFlight, "max-in-flight", 1000,
		"requests besides watches that wait for answers at the same time; further requests are sent later")
	auditlog.AddWrapperFlag(set, &f.LogWrapper)
	useragent.AddFormFlag(set, &f.Encodings)
	set.StringVarP(&f.output, "output", "o", render.Terminal, "one of "+strings.Join(formats, ", "))
	set.StringVar(&f.page, "report", "", "write the report to this file, too, as an HTML page")
	set.StringVar(&f.from, "from", "", "print the report in this file, as -o json wrote it, and send nothing")
	set.IntVar(&f.top, "top", 15, "rows of each table")
	return cmd
}

var formats = []string{render.Terminal, render.JSON, render.Markdown}

// validate returns an error that says which value of a flag to change.
func (f *flags) validate() error {
	switch {
	case !slices.Contains(formats, f.output):
		return fmt.Errorf("-o %s: choose one of %s", f.output, strings.Join(formats, ", "))
	case f.Writes != WritesNone && f.Writes != WritesOwnNamespaces:
		return fmt.Errorf("--writes=%s: choose %s or %s", f.Writes, WritesNone, WritesOwnNamespaces)
	case auditlog.CheckWrapper(f.LogWrapper) != nil:
		return auditlog.CheckWrapper(f.LogWrapper)
	case !(f.Speed > 0):
		return errors.New("--speed: choose a number above 0")
	case f.Duration < 0:
		return errors.New("--duration: choose a time above 0")
	case f.Connections < 1 || f.MaxInFlight < 1 || f.top < 1:
		return errors.New("--connections, --max-in-flight and --top: choose 1 or more")
	}
	return useragent.CheckForms(f.Encodings)
}

// execute sends the log to all servers, or reads a report, and prints the report. It prints the
// report of a replay that failed, too, if any server has an outcome.
func (f *flags) execute(ctx context.Context, cmd *cobra.Command, paths []string, version string) error {
	if err := cmp.Or(f.validate(), display.CheckFile(f.page)); err != nil {
		return err
	}
	// Nobody should change objects of their cluster by accident.
	f.server.Deliberate = f.remove || f.Writes != WritesNone
	if f.remove {
		return f.removeAll(ctx, cmd.OutOrStdout())
	}
	r := &Report{}
	var failed error
	if f.from != "" {
		if err := render.ReadReport(f.from, r); err != nil {
			return err
		}
		if len(r.Servers) == 0 {
			return fmt.Errorf("--from=%s: this is not a report of a replay: it has no server", f.from)
		}
		if slices.ContainsFunc(r.Servers, func(s ServerOutcome) bool { return s.Interrupted }) {
			failed = errInterrupted
		}
	} else {
		servers, err := f.servers()
		if err != nil {
			return err
		}
		r = &Report{
			Millrace: version, Arguments: os.Args, Started: time.Now().UTC().Truncate(time.Second),
			Machine: price.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}, Options: f.Options,
		}
		if failed = r.replay(ctx, paths, cmd.InOrStdin(), servers, display.NewProgress(cmd.ErrOrStderr())); len(r.Servers) == 0 {
			return failed
		}
	}
	if f.page != "" {
		failed = errors.Join(failed, r.WritePage(f.page))
	}
	err := render.WriteReport(cmd.OutOrStdout(), f.output, r, func(format string) string { return r.text(format, f.top) })
	return cmp.Or(errors.Join(failed, err), auditlog.CheckLost(r.Log.Lost))
}

// removeAll removes from all servers the namespaces that replays have made.
func (f *flags) removeAll(ctx context.Context, out io.Writer) error {
	servers, err := f.servers()
	if err != nil {
		return err
	}
	for _, s := range servers {
		n, err := removeWrites(ctx, s)
		if err == nil {
			_, err = fmt.Fprintf(out, "removed %s at %s\n", display.Plural(n, "namespace"), s.base)
		}
		if err != nil {
			return interrupt.Explain(ctx, err)
		}
	}
	return nil
}

// servers returns the server of the kubeconfig, and the one of --compare after it.
func (f *flags) servers() (all []*server, err error) {
	named := []kubeconfig.Flags{f.server}
	if f.compare != "" {
		named = append(named, kubeconfig.Flags{Kubeconfig: f.compare, Context: f.server.Context})
	}
	for i := range named {
		config, err := named[i].Load("replay")
		if err != nil {
			return nil, err
		}
		s, err := newServer(config, f.Connections)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}
