package replica

import (
	"context"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/replica/follow"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
	"github.com/millrace/millrace/internal/tier/source"
)

// openCheckpoints opens the data directory, if there is one, and lets the backends keep
// checkpoints there. followed are the checkpoints of an upstream's API. It is nil with etcd,
// and if nothing is kept because the upstream's cluster is not known. Unless openCheckpoints
// fails, the caller calls release once nothing uses the directory.
func (r *Replica) openCheckpoints(ctx context.Context, b *source.Backends) (followed *follow.Checkpoints, release func(), err error) {
	o := r.options
	if o.CheckpointDir == "" {
		return nil, func() {}, nil
	}
	dir, err := datadir.Open(datadir.Config{Path: o.CheckpointDir})
	if err != nil {
		return nil, nil, err
	}
	release = func() {
		if err := dir.Close(); err != nil {
			r.logger.Error("Could not close data directory", "err", err)
		}
	}
	files, err := checkpoint.OpenDir(dir.Paths().Checkpoints)
	if err != nil {
		release()
		return nil, nil, err
	}
	if !o.usesEtcd() {
		cluster, err := r.upstream.Cluster(ctx)
		if err != nil {
			r.logger.Warn("Nothing is kept on disk: let the user of --kubeconfig read that config map", "err", err)
			return nil, release, nil
		}
		followed = &follow.Checkpoints{Dir: files, Upstream: func() string { return cluster + " " + r.upstream.Version() }, Logger: r.logger}
	}
	b.Checkpoints = &source.Checkpoints{
		Dir: files, Interval: o.CheckpointInterval, Logger: r.logger, LeaveOut: func(p *cache.Part) bool { return r.policy.Excludes(p.GroupResource) },
	}
	return followed, release, nil
}
