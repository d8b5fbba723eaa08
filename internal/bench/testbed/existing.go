package testbed

import (
	"context"
	"fmt"
	"strconv"

	"github.com/millrace/millrace/internal/kubeconfig"
)

// ReadPathExisting stands for the server of --at, which no command starts.
const ReadPathExisting = "server"

const (
	// ownSeed is the seed of the data of servers that a command starts.
	ownSeed = 1
	// ExistingSeed is the seed of all data that is filled into the server of --at. It is not
	// the one that "fill" has by itself, so that no other data of "fill" is removed.
	ExistingSeed = 3700
)

// Seed is the seed of all data that is filled in.
func (o *Options) Seed() uint64 {
	if o.At != "" {
		return ExistingSeed
	}
	return ownSeed
}

// useExisting sets what follows from --at.
func (o *Options) useExisting() error {
	if _, err := o.existingServer().Load("bench"); err != nil {
		return fmt.Errorf("--at=%s: %w", o.At, err)
	}
	o.ReadPaths, o.ExternalEtcd = []string{ReadPathExisting}, false
	return nil
}

// existingServer is the server of --at.
func (o *Options) existingServer() *kubeconfig.Flags { return &kubeconfig.Flags{Kubeconfig: o.At} }

// existing connects to the server of --at.
func (b *Testbed) existing(ctx context.Context) (*Server, error) {
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
	meter, err := newRemoteMeter(t)
	if err != nil {
		b.Config.Progress.Phase("the CPU and memory of the server are not known: %v", err)
	}
	return &Server{Target: t, Kubeconfig: b.Config.At, remote: meter}, nil
}

// existingArgs are the flags of "fill" for the server of --at.
func (b *Testbed) existingArgs() []string {
	return []string{"fill", "--kubeconfig=" + b.Config.At, "--seed=" + strconv.Itoa(ExistingSeed)}
}

// Filled tells the Testbed that its caller has filled in data by itself. If that is in the
// server of --at, the Testbed removes it in the end.
func (b *Testbed) Filled() { b.existingData = b.Config.At != "" }

// removeExisting removes what was filled into the server of --at. After an interrupt it says
// how to do that, because it can take minutes.
func (b *Testbed) removeExisting(ctx context.Context) {
	if !b.existingData {
		return
	}
	b.existingData = false
	command := append(b.existingArgs(), "--delete")
	if ctx.Err() != nil {
		b.Config.Progress.Phase("objects are left in the server: millrace fill --delete --seed=%d --kubeconfig=%s removes them", ExistingSeed, b.Config.At)
		return
	}
	b.Config.Progress.Phase("removing the objects")
	err := b.runFill(ctx, command)
	if err != nil {
		b.Config.Progress.Phase("objects are left in the server: %v", err)
	}
}
