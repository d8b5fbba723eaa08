package analyze

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/render"
)

// profileTimeout bounds each request of the profile.
const profileTimeout = time.Minute

type profileFlags struct {
	server  kubeconfig.Flags
	sample  int
	exclude []string
}

// newProfileCommand returns the command "analyze profile".
func newProfileCommand() *cobra.Command {
	f := &profileFlags{}
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Measure a cluster for --profile: counts, sizes and labels, no data",
		Long: `Measure a cluster for --profile: how many objects of each resource there are, their
sizes, and how many of them a namespace, a node and a value of a label has.

It lists the first objects of each resource in pages of 500. The profile has names of
resources and of labels, but no values, no names of objects and no data.`,
		Example: "  millrace-tools analyze profile > cluster.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			cfg, err := f.config()
			if err != nil {
				return err
			}
			cfg.Progress = func(resource string) { fmt.Fprintln(cmd.ErrOrStderr(), "measuring", resource) }
			p, err := clusterprofile.Capture(ctx, cfg)
			if err != nil {
				return interrupt.Explain(ctx, err)
			}
			for _, note := range p.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "not measured:", display.Clean(note))
			}
			if len(p.Resources) == 0 {
				return errors.New("nothing could be measured: give the user of the kubeconfig the right to list")
			}
			return render.WriteReport(cmd.OutOrStdout(), render.JSON, p, nil)
		},
	}
	f.server.AddTo(cmd.Flags())
	cmd.Flags().IntVar(&f.sample, "sample", 2000, "objects of each resource to read; the server says how many further objects there are")
	cmd.Flags().StringSliceVar(&f.exclude, "exclude", []string{"secrets"}, "resources to leave out, as in deployments.apps")
	return cmd
}

// maxProfileNotes bounds the notes of a profile in a report.
const maxProfileNotes = 10

// noteProfile adds a note on what the profile lacks. p is nil if there is no profile. If names are
// hashed, the note has only the number of resources, because the profile's notes name resources.
func (r *Report) noteProfile(p *clusterprofile.Profile, hashed bool) {
	if p == nil {
		r.Notes = append(r.Notes, "There is no profile: objects are counted by their names in the log, and sizes are assumed. "+
			"Make a profile with millrace-tools analyze profile.")
		return
	}
	if len(p.Notes) == 0 {
		return
	}
	text := fmt.Sprintf("The profile lacks %d resources, which could not be measured: their objects are counted by their names in the log, "+
		"and their sizes are assumed.", len(p.Notes))
	for i, note := range p.Notes {
		switch {
		case hashed:
		case i == maxProfileNotes:
			text += " …"
		case i < maxProfileNotes:
			text += " " + display.Clean(note) + "."
		}
	}
	r.Notes = append(r.Notes, text)
}

// config returns a Config for the server of the kubeconfig. Its Progress is not set.
func (f *profileFlags) config() (cfg clusterprofile.Config, err error) {
	if f.sample < 1 {
		return cfg, errors.New("--sample: choose 1 or more")
	}
	config, err := f.server.Load("analyze")
	if errors.Is(err, datadir.ErrNotFound) {
		return cfg, errors.New("there is no kubeconfig: set KUBECONFIG, or give --kubeconfig, for the cluster that wrote the log")
	}
	if err != nil {
		return cfg, err
	}
	config.Timeout = profileTimeout
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return cfg, fmt.Errorf("read the server's address: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return cfg, fmt.Errorf("make client: %w", err)
	}
	return clusterprofile.Config{Client: client, Host: host.String(), Sample: f.sample, Exclude: f.exclude}, nil
}
