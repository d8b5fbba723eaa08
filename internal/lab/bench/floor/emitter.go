package floor

import (
	"context"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// Emitter asks a floor server for events.
type Emitter struct{ Target *testbed.Target }

// Emit makes the floor send so many events, rate of them a second. It returns when all
// are published.
func (e Emitter) Emit(ctx context.Context, events int, rate float64) error {
	query := url.Values{"events": {strconv.Itoa(events)}, "rate": {strconv.FormatFloat(rate, 'g', -1, 64)}}
	if err := e.Target.Get(ctx, emitPath+"?"+query.Encode(), nil); err != nil {
		return testbed.Cause(ctx, err)
	}
	return nil
}
