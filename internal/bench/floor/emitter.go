package floor

import (
	"context"
	"io"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// Emitter asks a floor server for events.
type Emitter struct{ Target *testbed.Target }

// Emit makes the floor send so many events, rate of them a second. It returns when all
// are published.
func (e Emitter) Emit(ctx context.Context, events int, rate float64) error {
	query := url.Values{"events": {strconv.Itoa(events)}, "rate": {strconv.FormatFloat(rate, 'g', -1, 64)}}
	c, err := e.Target.Dial(0)
	if err != nil {
		return err
	}
	defer c.Close()
	req, err := e.Target.NewRequest(ctx, testbed.Request{URI: emitPath + "?" + query.Encode(), Accept: "*/*"})
	if err != nil {
		return err
	}
	resp, err := c.Send(req)
	if err != nil {
		return testbed.Cause(ctx, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
