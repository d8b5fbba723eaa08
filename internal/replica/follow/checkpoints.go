package follow

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/checkpoint"
	"github.com/millrace/millrace/internal/tier/source"
)

// secrets are never written to disk: what the upstream's API sends does not show whether the
// upstream encrypts them at rest. They are followed without compression, because the length of
// compressed bytes would tell what secrets have in common with the text of others.
var secrets = schema.GroupResource{Resource: "secrets"}

// Checkpoints are the files of resources that were followed. Nil has none.
type Checkpoints struct {
	Dir *checkpoint.Dir
	// Upstream identifies the API server: its cluster, and the version that it has now.
	Upstream func() string
	Logger   *slog.Logger
}

// forResource names the checkpoint of a resource, which is followed at a path. The second
// result is an apifeed.Config.Checkpoint. It is nil if nothing is kept.
func (c *Checkpoints) forResource(key Key, r *Request) (source.KeptBackend, func() (feed.Checkpoint, error)) {
	if c == nil || key.GroupResource == secrets {
		return source.KeptBackend{}, nil
	}
	form := fmt.Sprintf("%s protobuf=%v", r.path(), r.Protobuf)
	if r.Custom {
		form += fmt.Sprintf(" definition=%x", r.Spec)
	}
	from := func() string { return fmt.Sprintf("API server %s %s", c.Upstream(), form) }
	return source.KeptBackend{Name: key.String(), Source: from},
		func() (feed.Checkpoint, error) { return c.Dir.Open(key.String(), from()) }
}

// remove removes the file of a resource, if there is one.
func (c *Checkpoints) remove(key Key) {
	if c == nil {
		return
	}
	if err := c.Dir.Remove(key.String()); err != nil {
		c.Logger.Error("Could not remove the checkpoint of a resource that is not followed; remove it by hand", "err", err)
	}
}

// keys returns the keys of which an earlier run has left files.
func (c *Checkpoints) keys() (keys []Key) {
	if c == nil {
		return nil
	}
	names, err := c.Dir.Names()
	if err != nil {
		c.Logger.Warn("Cannot tell which resources an earlier run has followed", "err", err)
	}
	for _, name := range names {
		keys = append(keys, parseKey(name))
	}
	return keys
}
