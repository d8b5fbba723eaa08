package fill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/tool/display"
)

// target stores objects. apiClient implements it through an API server, etcdTarget directly
// in etcd.
type target interface {
	// store writes objects of one kind. The caller must not use the objects
	// afterwards. The count is valid even if store returns an error.
	store(ctx context.Context, kind Kind, objs []Object) (Count, error)
	close() error
}

// Filler writes or removes one synthetic cluster. Create it with New and call
// Run once.
type Filler struct {
	cfg       Config
	generator *Generator
	api       *apiClient // nil when writing to etcd
	line      *display.Line
}

// New checks the configuration, and reads the kubeconfig if the run uses the API.
// It contacts no server.
func New(cfg Config) (*Filler, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	generator, err := NewGenerator(cfg.Shape)
	if err != nil {
		return nil, err
	}
	f := &Filler{cfg: cfg, generator: generator, line: display.NewLine(cfg.Progress)}
	if !cfg.writesToEtcd() {
		if cfg.REST == nil {
			if cfg.REST, err = cfg.Server.Load("fill"); err != nil {
				return nil, err
			}
		}
		if f.api, err = newAPIClient(cfg, generator); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Run writes or removes all objects. It returns after all goroutines that it
// started have ended. The summary is valid even if Run returns an error, for
// example because the context ended. An interrupted run can be repeated: existing
// objects are not written again.
func (f *Filler) Run(ctx context.Context) (Summary, error) {
	summary := Summary{Deleted: f.cfg.Delete, Kinds: make(map[Kind]Count)}
	to, err := f.connect(ctx)
	if err != nil {
		return summary, err
	}
	start := time.Now()
	if f.cfg.Delete {
		err = f.removeAll(ctx, summary.Kinds)
	} else {
		err = f.storeAll(ctx, to, &summary)
	}
	summary.Elapsed = time.Since(start)
	if f.api != nil {
		summary.Notes = append(summary.Notes, f.api.notes()...)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = fmt.Errorf("stopped before the end: %w", cause)
	}
	return summary, errors.Join(err, to.close())
}

func (f *Filler) connect(ctx context.Context) (target, error) {
	if f.api != nil {
		return f.api, f.api.ping(ctx)
	}
	return dialEtcd(ctx, f.cfg)
}

// newSource returns the source of the objects to write. For a profile it reads the server.
func (f *Filler) newSource(ctx context.Context) (source, error) {
	shaped := shapeSource{f.generator, f.cfg.Shape.withDefaults()}
	switch {
	case len(f.cfg.Definitions) > 0:
		return definitionSource{shaped, f.cfg.Definitions, f.cfg.DefinitionObjects}, nil
	case f.cfg.Profile == nil:
		return shaped, nil
	}
	return newProfileSource(ctx, f.cfg.Shape.Seed, f.cfg.Profile, f.api)
}

// storeAll writes all objects, kind by kind. It fills in summary, also if it fails.
func (f *Filler) storeAll(ctx context.Context, to target, summary *Summary) error {
	from, err := f.newSource(ctx)
	if err != nil {
		return err
	}
	summary.Notes = from.notes()
	counts := summary.Kinds
	for _, kind := range ProfileKinds() {
		total := from.count(kind)
		if total == 0 {
			continue
		}
		err := f.withProgress(kind, int64(total), counts, func(done *counter) error {
			return f.storeKind(ctx, to, from, kind, done)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// storeKind writes all objects of a kind with several workers. Each worker
// generates the objects that it writes.
func (f *Filler) storeKind(ctx context.Context, to target, from source, kind Kind, done *counter) error {
	total := from.count(kind)
	batch := 1
	if f.cfg.writesToEtcd() {
		batch = etcdBatch
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(f.cfg.Workers, (total+batch-1)/batch) {
		group.Go(func() error {
			for ctx.Err() == nil {
				first := int(next.Add(int64(batch))) - batch
				if first >= total {
					return nil
				}
				objs := make([]Object, 0, batch)
				for i := first; i < min(first+batch, total); i++ {
					obj, err := from.object(ctx, kind, i)
					if err != nil {
						return err
					}
					objs = append(objs, obj)
				}
				count, err := to.store(ctx, kind, objs)
				done.add(count)
				if err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (f *Filler) removeAll(ctx context.Context, counts map[Kind]Count) error {
	for _, kind := range deletionKinds() {
		err := f.withProgress(kind, 0, counts, func(done *counter) error {
			return f.api.remove(ctx, kind, done.add)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withProgress runs work, which adds to the counter, and shows progress meanwhile. It stores
// the final count in counts. total is the expected number of objects, 0 if it is not known.
func (f *Filler) withProgress(kind Kind, total int64, counts map[Kind]Count, work func(*counter) error) error {
	p := progress{verb: "filling", kind: kind, total: total, start: time.Now()}
	if f.cfg.Delete {
		p.verb = "deleting"
	}
	following, stop := context.WithCancel(context.Background())
	var showing sync.WaitGroup
	showing.Go(func() { f.line.Follow(following, func(time.Duration) string { return p.text(time.Now()) }) })
	err := work(&p.counter)
	stop()
	showing.Wait()
	counts[kind] = p.counter.snapshot()
	return err
}
