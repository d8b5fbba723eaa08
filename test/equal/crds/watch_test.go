package crds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// watch has a stream from each side.
type watch struct {
	streams [2]*stream
}

// stream reads the events of a watch in the background.
type stream struct {
	cancel context.CancelFunc
	frames chan json.RawMessage
	// err is how the stream ended. It may be read once frames is closed.
	err error
	// closed is closed when the reader has ended.
	closed chan struct{}
}

// watch opens a stream on both sides: > watch LABEL PATH. If it is refused, the answers are
// compared.
func (r *run) watch(s *step) {
	label := s.word(0)
	get := *s
	get.verb, get.words = http.MethodGet, s.words[1:]
	w := &watch{}
	var answers [2]*answer
	err := r.pair.both(func(i int, side *side) error {
		c, err := r.call(i, &get)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		resp, err := side.send(ctx, c)
		if err != nil {
			cancel()
			return err
		}
		answers[i] = &answer{status: resp.StatusCode, header: resp.Header}
		if resp.StatusCode != http.StatusOK {
			defer cancel()
			defer resp.Body.Close()
			answers[i].body, err = io.ReadAll(resp.Body)
			return err
		}
		w.streams[i] = follow(cancel, resp.Body)
		return nil
	})
	r.watches[label] = w
	if err != nil {
		r.fatalf("%s: %v", r.at, err)
	}
	r.pair.requests.Add(1)
	mismatch := r.normalisers.difference(answers, scope{})
	if *rewrite {
		s.status = answers[1].status
	} else if s.status != 0 && s.status != answers[1].status {
		mismatch += fmt.Sprintf("  the stock server answers %d, not %d\n", answers[1].status, s.status)
	}
	r.report(mismatch, nil)
}

func follow(cancel context.CancelFunc, body io.ReadCloser) *stream {
	s := &stream{cancel: cancel, frames: make(chan json.RawMessage, 1000), closed: make(chan struct{})}
	go func() {
		defer close(s.closed)
		defer close(s.frames)
		defer body.Close()
		d := json.NewDecoder(body)
		for {
			var frame json.RawMessage
			if s.err = d.Decode(&frame); s.err != nil {
				return
			}
			s.frames <- frame
		}
	}()
	return s
}

const eventTimeout = 20 * time.Second

// next returns the next event, or nil at the end of the stream. It skips bookmarks unless
// bookmarks is set.
func (s *stream) next(bookmarks bool) (json.RawMessage, error) {
	timeout := time.NewTimer(eventTimeout)
	defer timeout.Stop()
	for {
		select {
		case frame, ok := <-s.frames:
			switch {
			case !ok:
				return nil, nil
			case bookmarks || !bytes.Contains(frame[:min(len(frame), 40)], []byte(`"BOOKMARK"`)):
				return frame, nil
			}
		case <-timeout.C:
			return nil, fmt.Errorf("no event within %v", eventTimeout)
		}
	}
}

// events compares the next events of a stream: > events LABEL COUNT.
func (r *run) events(s *step) {
	count, err := strconv.Atoi(s.word(1))
	if err != nil {
		r.fatalf("%s: count: %v", r.at, err)
	}
	_, bookmarks := s.options["bookmarks"]
	w := r.watches[s.word(0)]
	for at := range count {
		r.compareFrames(w, fmt.Sprintf("event %d", at), func(side *stream) ([]json.RawMessage, error) {
			frame, err := side.next(bookmarks)
			if err == nil && frame == nil {
				err = fmt.Errorf("the stream ended: %w", side.err)
			}
			return []json.RawMessage{frame}, err
		})
	}
}

// closed waits for the end of a stream, and compares the events before it and how it ended:
// > closed LABEL.
func (r *run) closed(s *step) {
	w := r.watches[s.word(0)]
	r.compareFrames(w, "remaining events", func(side *stream) (remaining []json.RawMessage, err error) {
		for {
			frame, err := side.next(false)
			if err != nil {
				return nil, err
			}
			if frame == nil {
				end := "the stream ended"
				if !errors.Is(side.err, io.EOF) {
					end += ": " + side.err.Error()
				}
				raw, err := json.Marshal(end)
				return append(remaining, raw), err
			}
			remaining = append(remaining, frame)
		}
	})
}

func (r *run) compareFrames(w *watch, what string, read func(*stream) ([]json.RawMessage, error)) {
	var shown [2]string
	for i, stream := range w.streams {
		if stream == nil {
			r.fatalf("%s: there is no stream", r.at)
		}
		frames, err := read(stream)
		if err != nil {
			r.errorf("%s: %s: %s: %v", r.at, what, sideNames[i], err)
			continue
		}
		for _, frame := range frames {
			plain, err := r.normalisers[i].body(frame, scope{})
			if err != nil {
				r.fatalf("%s: %s: %v", r.at, what, err)
			}
			shown[i] += plain
		}
	}
	r.pair.objects.Add(1)
	if mismatch := textDifference(shown); mismatch != "" {
		r.errorf("%s: %s\n%s", r.at, what, mismatch)
	}
	r.trace(call{method: "EVENT"}, &answer{body: []byte(shown[1])})
}

func (r *run) closeWatches() {
	for _, w := range r.watches {
		for _, s := range w.streams {
			if s == nil {
				continue
			}
			s.cancel()
			for range s.frames {
			}
			<-s.closed
		}
	}
	clear(r.watches)
}
