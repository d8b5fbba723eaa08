package testbed

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// ReadPathExisting stands for the server of --at, which no command starts.
const ReadPathExisting = "server"

const (
	// ownSeed is the seed of the data of servers that a command starts.
	ownSeed = 1
	// ExistingSeed is the seed of all data that is filled into the server of --at. It differs
	// from the default of "fill", so that no other data of "fill" is removed.
	ExistingSeed = 3700
)

// Seed returns the seed of all data that is filled in.
func (o *Options) Seed() uint64 {
	if o.At != "" {
		return ExistingSeed
	}
	return ownSeed
}

// AddAtFlags adds the flags of a command that can measure a server that exists. Each help text
// starts with when. The command must call Validate.
func (o *Options) AddAtFlags(f *pflag.FlagSet, when string) {
	f.StringVar(&o.At, "at", "", when+"kubeconfig of a server to measure in place of starting any: data is filled in "+
		"through it, and removed again")
	f.StringVar(&o.atContext, "at-context", "", when+"context of the kubeconfig of --at (default its current context)")
	o.changed = f.Changed
}

// useExisting sets the options that follow from --at. It returns an error for flags that
// exclude --at, and if the kubeconfig cannot be read.
func (o *Options) useExisting() error {
	for _, flag := range []string{"read-paths", "kube-apiserver", "server-arg"} {
		if o.changed(flag) {
			return fmt.Errorf("--at measures a server that runs: it excludes --%s", flag)
		}
	}
	if _, err := o.existingServer().Load("bench"); err != nil {
		return fmt.Errorf("--at=%s: %w", o.At, err)
	}
	o.ReadPaths = []string{ReadPathExisting}
	o.ExternalEtcd = false
	return nil
}

// existingServer returns how to reach the server of --at.
func (o *Options) existingServer() *kubeconfig.Flags {
	return &kubeconfig.Flags{Kubeconfig: o.At, Context: o.atContext, At: true}
}

// connectExisting connects to the server of --at. If its metrics cannot be read, the user is
// shown why, and all readings of its meter are zero.
func (b *Testbed) connectExisting(ctx context.Context) (*Server, error) {
	cfg, err := b.Config.existingServer().Load("bench")
	if err != nil {
		return nil, err
	}
	t, err := NewTarget(TargetConfig{REST: cfg, HTTP1: b.Config.HTTP1})
	if err != nil {
		return nil, err
	}
	if err := t.Get(ctx, "/readyz", nil); err != nil {
		return nil, fmt.Errorf("reach the server of --at: %w", err)
	}
	meter, err := NewRemoteMeter(t)
	if err != nil {
		b.Config.Progress.Phase("the CPU and memory of the server are not known: %v", err)
	}
	return &Server{Target: t, Kubeconfig: b.Config.At, context: b.Config.atContext, remote: meter}, nil
}

// existingFillArgs returns the arguments of "fill" for the server of --at.
func (b *Testbed) existingFillArgs() []string {
	args := []string{"fill", "--seed=" + strconv.Itoa(ExistingSeed), "--kubeconfig=" + b.Config.At}
	if b.Config.atContext != "" {
		args = append(args, "--context="+b.Config.atContext)
	}
	return args
}

// SetFilled records that the caller has filled in data by itself. If a server of --at has that
// data, closing the Testbed removes it.
func (b *Testbed) SetFilled() { b.existingData = b.Config.At != "" }

// leftAdvice says what to do about objects that stay in the server of --at. It names no other
// command than the user's own, which removes at its end what earlier runs have left, too.
const leftAdvice = "objects may be left in the server: repeat the command, which removes them at its end"

// removeExisting removes what was filled into the server of --at. After an interrupt it only
// says how to do that, because it can take minutes.
func (b *Testbed) removeExisting(ctx context.Context) error {
	if !b.existingData {
		return nil
	}
	b.existingData = false
	if ctx.Err() != nil {
		b.Config.Progress.Phase(leftAdvice)
		return nil
	}
	b.Config.Progress.Phase("removing the objects")
	if err := b.runFill(ctx, append(b.existingFillArgs(), "--delete")); err != nil {
		return fmt.Errorf("%s: %w", leftAdvice, err)
	}
	return nil
}
