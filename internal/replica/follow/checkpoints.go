package follow

import (
	"context"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
	"github.com/millrace/millrace/internal/tier/source"
)

// openCheckpoints opens the data directory, if there is one, and has the backends keep
// checkpoints there. The caller calls release once nothing uses them.
func (r *Replica) openCheckpoints(ctx context.Context, b *source.Backends) (release func(), err error) {
	o := r.options
	if o.CheckpointDir == "" {
		return func() {}, nil
	}
	dir, err := datadir.Open(datadir.Config{Path: o.CheckpointDir})
	if err != nil {
		return nil, err
	}
	release = func() { r.closeOrLog("data directory", dir.Close) }
	c := &source.Checkpoints{
		Interval: o.CheckpointInterval, Logger: r.logger,
		LeaveOut: func(p *cache.Part) bool { return o.excludes(p.GroupResource) },
	}
	if c.Dir, err = checkpoint.OpenDir(dir.Paths().Checkpoints); err != nil {
		release()
		return nil, err
	}
	if !o.usesEtcd() {
		if c.Upstream, err = r.upstream.Identity(ctx); err != nil {
			r.logger.Warn("Nothing is kept on disk: let the user of --kubeconfig read that config map", "err", err)
			return release, nil
		}
		version := r.upstream.Version()
		c.IsCurrent = func() bool { return r.upstream.Version() == version }
	}
	b.Checkpoints = c
	return release, nil
}

// kept returns the feeds of an API server of which there are checkpoints. It removes those that
// may not be kept.
func (r *Replica) kept() []source.FeedKey {
	if r.api == nil || r.api.Checkpoints == nil {
		return nil
	}
	dir := r.api.Checkpoints.Dir
	names, err := dir.Names()
	if err != nil {
		r.logger.Warn("Cannot tell which resources an earlier run has followed", "err", err)
	}
	var kept []source.FeedKey
	for _, name := range names {
		key := source.ParseFeedKey(name)
		if !r.options.excludes(key.GroupResource) && (r.isVerbatim || !key.InProtobuf) {
			kept = append(kept, key)
		} else if err := dir.Remove(name); err != nil {
			r.logger.Error("Could not remove the checkpoint of a resource that is not followed; remove it by hand", "err", err)
		}
	}
	return kept
}

// followKept follows the built-in resources that an earlier run has followed.
func (r *Replica) followKept() {
	for _, key := range r.kept() {
		gvr, served := r.upstream.Preferred(key.GroupResource)
		_, builtIn := r.builtIn[gvr]
		switch {
		case r.isVerbatim:
			r.followVerbatim(key, true)
		case served && builtIn:
			r.followBuiltIn(gvr, true)
		}
	}
}
