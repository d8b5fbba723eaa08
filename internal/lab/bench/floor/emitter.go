package floor

import (
	"context"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// Emitter requests events of a floor server.
type Emitter struct{ Target *testbed.Target }

// Emit makes the floor server send a number of events to each stream, at a rate in events a
// second, which must be above 0. It returns when all are published. Calls may overlap.
func (e Emitter) Emit(ctx context.Context, events int, rate float64) error {
	query := url.Values{"events": {strconv.Itoa(events)}, "rate": {strconv.FormatFloat(rate, 'g', -1, 64)}}
	if err := e.Target.Get(ctx, emitPath+"?"+query.Encode(), nil); err != nil {
		return testbed.Cause(ctx, err)
	}
	return nil
}
