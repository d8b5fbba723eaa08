package testbed

import (
	"context"
	"fmt"
	"strconv"
)

// FillConfig is the data to fill in: nodes, pods and objects that go with them, or, if Secrets
// is set, secrets in their place.
type FillConfig struct {
	Nodes   int    `json:"nodes,omitempty"`
	Pods    int    `json:"pods,omitempty"`
	PodSize string `json:"podSize,omitempty"`
	// CustomObjects is how many objects there are of one definition.
	CustomObjects int    `json:"customObjects,omitempty"`
	Older         bool   `json:"older,omitempty"`    // pods as an older version stored them
	Services      bool   `json:"services,omitempty"` // the Deployment, Service and EndpointSlice of each 20 pods too
	Leases        bool   `json:"leases,omitempty"`   // the lease of each node too
	Secrets       int    `json:"secrets,omitempty"`
	SecretSize    string `json:"secretSize,omitempty"`
	Namespaces    int    `json:"namespaces"`
}

// String returns the data in words, as in "1000 nodes, 10000 pods of 4KB in 1 namespaces".
func (f FillConfig) String() string {
	objects := fmt.Sprintf("%d nodes, %d pods of %s", f.Nodes, f.Pods, f.PodSize)
	if f.Services {
		objects += " with their services"
	}
	if f.Older {
		objects += " as an older version stored them"
	}
	if f.CustomObjects > 0 {
		objects += fmt.Sprintf(", %d custom objects", f.CustomObjects)
	}
	if f.Secrets > 0 {
		objects = fmt.Sprintf("%d secrets of %s", f.Secrets, f.SecretSize)
	}
	return fmt.Sprintf("%s in %d namespaces", objects, f.Namespaces)
}

// args returns the flags of "fill" for f, without custom objects.
func (f FillConfig) args() []string {
	args := []string{"--nodes=" + strconv.Itoa(f.Nodes), "--pods=" + strconv.Itoa(f.Pods), "--pod-size=" + f.PodSize}
	if f.Services {
		args = append(args, "--workloads")
	}
	if f.Leases {
		args = append(args, "--leases")
	}
	if f.Older {
		args = append(args, "--older")
	}
	if f.Secrets > 0 {
		args = []string{"--secrets=" + strconv.Itoa(f.Secrets), "--secret-size=" + f.SecretSize}
	}
	return append(args, "--namespaces="+strconv.Itoa(f.Namespaces))
}

// customArgs returns the flags of "fill" for the custom objects of f.
func (f FillConfig) customArgs() []string {
	return []string{"--crds=1", "--groups=1", "--objects=" + strconv.Itoa(f.CustomObjects), "--namespaces=" + strconv.Itoa(f.Namespaces)}
}

// Fill runs "fill". It writes to an external etcd directly, and otherwise through a server.
// Custom objects always go through a server.
func (b *Testbed) Fill(ctx context.Context, f FillConfig) error {
	b.Config.Progress.Phase("filling in %s", f)
	var err error
	if b.etcd != nil {
		err = b.runFill(ctx, append([]string{"fill", b.etcdFlag()}, f.args()...))
	} else {
		err = b.fillThroughServer(ctx, f.args())
	}
	if err != nil || f.CustomObjects == 0 {
		return err
	}
	return b.fillThroughServer(ctx, f.customArgs())
}

// fillThroughServer runs "fill" with the server of --at, or with a server that serves nothing
// else. Objects in the server of --at have no owners: controllers may run there, and would
// remove objects whose owners do not exist.
func (b *Testbed) fillThroughServer(ctx context.Context, args []string) error {
	if b.Config.At != "" {
		b.SetFilled()
		return b.runFill(ctx, append(append(b.existingFillArgs(), "--ownerless"), args...))
	}
	s, err := b.Start(ctx, b.Config.ReadPaths[0], "serve-fill")
	if err != nil {
		return err
	}
	defer b.End(ctx, s)
	return b.runFill(ctx, append([]string{"fill", "--kubeconfig=" + b.kubeconfig()}, args...))
}

func (b *Testbed) runFill(ctx context.Context, args []string) error {
	filler, err := StartChild(ChildConfig{Path: b.Own, LogFile: b.LogPath("fill.log"), Args: args})
	if err != nil {
		return err
	}
	return filler.wait(ctx)
}
