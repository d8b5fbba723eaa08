package replay

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

// replay reads logs, and sends their requests to one server after the other. If it returns an
// error, the report still has the outcomes of the servers so far.
func (r *Report) replay(ctx context.Context, paths []string, stdin io.Reader, servers []*server, progress *display.Progress) error {
	p, err := readPlan(ctx, paths, stdin, &r.Options, func(n int64) {
		progress.Show(func() string { return "read " + display.Size(n) + " of the log" })
	})
	if err != nil {
		return err
	}
	r.Log = LogSummary{
		Paths: paths, From: time.UnixMicro(p.first).UTC(), Seconds: float64(p.length) / 1e6, Requests: len(p.requests), Instances: len(p.instances),
		LeftOut: p.leftOut, Notes: p.notes, Lost: p.lost,
	}
	for _, s := range servers {
		if err := r.playTo(ctx, s, p, progress); err != nil {
			return err
		}
	}
	return nil
}

// playTo sends a plan to a server, and adds the outcome to the report. It returns errInterrupted,
// with an outcome, if ctx ended during the replay.
func (r *Report) playTo(ctx context.Context, s *server, p *plan, progress *display.Progress) error {
	version, err := s.check(ctx)
	if err != nil {
		return interrupt.Explain(ctx, err)
	}
	defer s.close()
	play := newPlayer(p, s, &r.Options)
	if r.Options.Writes == WritesOwnNamespaces {
		if play.writer, err = newWriter(ctx, s, p); err != nil {
			return interrupt.Explain(ctx, err)
		}
	}
	before, known := s.readUsage(ctx)
	failed := play.play(ctx, func(sent int) {
		progress.Show(func() string { return fmt.Sprintf("%s: sent %d of %d requests", s.base, sent, len(p.requests)) })
	})
	progress.End()
	o := ServerOutcome{Address: s.base, Version: version, Interrupted: failed != nil}
	play.totals.writeTo(&o)
	if after, ok := s.readUsage(context.WithoutCancel(ctx)); ok && known {
		cpu := after.cpu - before.cpu
		o.CPUSeconds, o.ResidentBytes = &cpu, &after.resident
	}
	until := p.length // microseconds of the log
	if r.Options.Duration > 0 {
		until = min(until, int64(r.Options.Duration.Seconds()*r.Options.Speed*1e6))
	}
	o.countLog(p, until)
	r.Servers = append(r.Servers, o)
	return failed
}
