package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

const longHelp = `Show whether watch events are in time, and what they and reads cost, as the
server measures it. Without a view there is an overview, which begins with what
is wrong now.

On a terminal it refreshes in place: q ends it, 1 to 8 and Tab change the view, w
shows all columns and rows. Elsewhere it prints once.

The server is found as kubectl finds it: --kubeconfig, $KUBECONFIG,
~/.kube/config; or it is the server of --data-dir, which is also the last resort.
The user needs the verb get for the nonResourceURLs /debug/millrace/*.`

// options has the values of the command's flags.
type options struct {
	server   kubeconfig.Flags
	once     bool
	interval time.Duration
	output   string
}

// NewCommand returns the command "top".
func NewCommand() *cobra.Command {
	var o options
	var names []string
	for _, v := range views()[1:] {
		names = append(names, v.name)
	}
	cmd := &cobra.Command{
		Use:       "top [" + strings.Join(names, "|") + "]",
		Short:     "Show whether watch events are in time, and what reads cost",
		Long:      longHelp,
		Example:   "  millrace-tools top\n  millrace-tools top lists --once -o wide\n  millrace-tools top slo -o json | jq .causes",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := findView(args)
			if err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			return o.run(ctx, v, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	o.server.AddTo(flags)
	o.server.AddDataDir(flags)
	flags.BoolVar(&o.once, "once", false, "print once and end, also on a terminal")
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "how often to refresh")
	flags.StringVarP(&o.output, "output", "o", "", `"json" prints what the server sent, "wide" all columns and rows`)
	return cmd
}

// findView returns the view that the arguments name, or the overview.
func findView(args []string) (view, error) {
	all := views()
	if len(args) == 0 {
		return all[0], nil
	}
	i := slices.IndexFunc(all, func(v view) bool { return v.name == args[0] })
	if i < 0 {
		return view{}, fmt.Errorf("%q is no view: see millrace-tools top --help", args[0])
	}
	return all[i], nil
}

// validate returns an error that says which value of a flag to choose.
func (o *options) validate() error {
	if o.output != "" && o.output != render.JSON && o.output != render.Wide {
		return fmt.Errorf("-o %s is unknown: give json or wide", o.output)
	}
	if o.interval < minInterval {
		return fmt.Errorf("--interval=%v is too short: give %v or more", o.interval, minInterval)
	}
	return nil
}

// minInterval is the shortest time between two refreshes.
const minInterval = 200 * time.Millisecond

// run shows a view until the user quits, if out is a terminal and the options do not ask for a
// single print. Otherwise it prints the view once.
func (o *options) run(ctx context.Context, v view, out io.Writer) error {
	config, err := o.server.Load("top")
	if err != nil {
		return err
	}
	c, err := newClient(config)
	if err != nil {
		return err
	}
	file, isFile := out.(*os.File)
	if o.output == render.JSON || o.once || !isFile || !display.IsTerminal(file) || !display.IsTerminal(os.Stdin) {
		return o.print(ctx, c, v, out)
	}
	s := &screen{
		client: c, out: file, interval: o.interval, view: v,
		wide: o.output == render.Wide, color: os.Getenv("NO_COLOR") == "",
	}
	err = s.run(ctx, os.Stdin)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// print prints a view, or its reports as JSON, to out.
func (o *options) print(ctx context.Context, c *client, v view, out io.Writer) error {
	r, err := c.fetch(ctx, v)
	if err != nil {
		return err
	}
	if o.output == render.JSON {
		encoded, err := r.json(v)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", encoded)
		}
		return err
	}
	p := &page{wide: o.output == render.Wide}
	v.draw(p, r)
	_, err = fmt.Fprintln(out, strings.Join(p.lines, "\n"))
	return err
}
