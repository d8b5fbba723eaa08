package bench

import (
	"context"
	"io"
	"net/url"
	"strconv"
)

// emitter is the source of a floor's events.
type emitter struct{ target *target }

func (e emitter) emit(ctx context.Context, events int, rate float64) error {
	query := url.Values{"events": {strconv.Itoa(events)}, "rate": {strconv.FormatFloat(rate, 'g', -1, 64)}}
	c, err := e.target.dial(0)
	if err != nil {
		return err
	}
	defer c.close()
	req, err := e.target.newRequest(ctx, request{uri: floorEmit + "?" + query.Encode(), accept: "*/*"})
	if err != nil {
		return err
	}
	resp, err := c.send(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
