package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/fill"
)

const (
	crdsPath         = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	acceptDiscovery  = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	discoveryPath    = "/apis"
	servedPoll       = 50 * time.Millisecond
	documentShare    = 20 // of the time of a poll that brings a document passes before the next
	definitionsAPage = 20 // of up to 1 MB each
)

// crdRun is one server that definitions are installed in, and starts again with
// them. Each read path has a data directory or an etcd of its own.
type crdRun struct {
	opts      *crdOptions
	log       *progress
	bed       *testbed
	path      string
	generator *fill.Generator

	server *server // the one that runs
	meter  *meter
	conn   *conn
}

// crdMeasurement is what is measured on one server.
type crdMeasurement interface {
	run(context.Context) error
	// done puts into the report what was measured, and why it is not all.
	done(failure error)
}

// eachPath gives every read path an empty testbed, and measures. A server that
// fails does not keep the next one from being measured. The end of ctx does, with
// its cause; what was measured by then is in the report.
func (o *crdOptions) eachPath(ctx context.Context, cfg Config, log *progress, on func(*crdRun) crdMeasurement) error {
	generator, err := fill.NewGenerator(o.data.shape())
	if err != nil {
		return err
	}
	for _, path := range o.paths() {
		bed, closeBed, err := openTestbed(ctx, cfg, testbedConfig{testbedOptions: o.testbedOptions, log: log, part: path})
		if err != nil {
			return err
		}
		r := &crdRun{opts: o, log: log, bed: bed, path: path, generator: generator}
		m := on(r)
		err = m.run(ctx)
		r.stop(ctx)
		closeBed()
		if ctx.Err() != nil {
			m.done(context.Cause(ctx))
			return context.Cause(ctx)
		}
		if err != nil {
			log.phase("failed: %v", err)
		}
		m.done(err)
	}
	return nil
}

// step runs a part of the measurement within its time.
func (r *crdRun) step(ctx context.Context, name string, run func(context.Context) error) error {
	r.log.phase("%s: %s", r.path, name)
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.plan.Timeout, fmt.Errorf("not done within --timeout=%s", r.opts.plan.Timeout))
	defer cancel()
	err := run(ctx)
	if r.server != nil {
		err = r.bed.explain(ctx, r.server.child, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, cause(ctx, err))
	}
	return nil
}

// start starts the server, once more if it runs.
func (r *crdRun) start(ctx context.Context, log string) error {
	r.stop(ctx)
	var err error
	if r.server, err = r.bed.start(ctx, r.path, log); err != nil {
		return err
	}
	r.meter = newMeter(r.server.pid())
	conns, err := r.server.target.connect(ctx, 1)
	if err != nil {
		return err
	}
	r.conn = conns[0]
	return nil
}

func (r *crdRun) stop(ctx context.Context) {
	if r.conn != nil {
		r.conn.close()
	}
	if r.server != nil {
		r.bed.end(ctx, r.server)
	}
	r.server, r.conn = nil, nil
}

// body is the answer to a GET.
func (r *crdRun) body(ctx context.Context, w request) ([]byte, error) {
	req, err := r.server.target.newRequest(ctx, w)
	if err != nil {
		return nil, err
	}
	return r.conn.fetchAll(req)
}

// serverState is what a server occupies when nobody asks for anything.
type serverState struct {
	RSSBytes   int64 `json:"rssBytes"`
	Goroutines int   `json:"goroutines"`
	// Idle is false if the server never was.
	Idle bool `json:"idle"`
	cpu  time.Duration
}

// settled waits until the server is idle and reads its state. Asking for the
// goroutines costs memory, so that comes last.
func (r *crdRun) settled(ctx context.Context) (*serverState, error) {
	rest := r.opts.plan.Rest
	r.log.step("rest")
	now, idle, err := r.meter.rest(ctx, rest)
	if err != nil {
		return nil, err
	}
	s := serverState{RSSBytes: now.rss, cpu: now.cpu, Idle: idle}
	metrics, err := r.body(ctx, request{uri: "/metrics", accept: "*/*"})
	if err != nil {
		return nil, err
	}
	s.Goroutines, err = goroutines(metrics)
	return &s, err
}

// goroutines finds their number in what a server tells of itself.
func goroutines(metrics []byte) (int, error) {
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("read metrics: no go_goroutines")
}

// fill writes or removes data through the server, as "fill" does.
func (r *crdRun) fill(ctx context.Context, cfg fill.Config) error {
	cfg.REST, cfg.Workers = r.server.target.cfg.rest, r.opts.plan.Workers
	filler, err := fill.New(cfg)
	if err != nil {
		return err
	}
	_, err = filler.Run(ctx)
	return err
}

// discovered is the part of a discovery document that counts.
type discovered struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions []struct {
			Resources []struct {
				Resource string `json:"resource"`
			} `json:"resources"`
		} `json:"versions"`
	} `json:"items"`
}

// resources counts those of fill's definitions.
func (d *discovered) resources() int {
	n := 0
	for _, group := range d.Items {
		if !strings.HasSuffix(group.Metadata.Name, fill.CRDGroupSuffix) {
			continue
		}
		for _, version := range group.Versions {
			n += len(version.Resources)
		}
	}
	return n
}

// awaitListed returns when aggregated discovery lists so many of fill's
// resources.
func (r *crdRun) awaitListed(ctx context.Context, want int) error {
	listed := 0
	err := r.awaitDiscovery(ctx, documentShare, func(body []byte) (bool, error) {
		var d discovered
		if err := json.Unmarshal(body, &d); err != nil {
			return false, fmt.Errorf("decode discovery: %w", err)
		}
		listed = d.resources()
		return listed == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait until discovery lists %d resources (it lists %d): %w", want, listed, err)
	}
	return nil
}

// awaitDiscovery returns when a discovery document is as wanted. It costs the
// server little: it asks for changes alone, and behind each pauses for so many times as
// long as that took, for where all changes all the time.
func (r *crdRun) awaitDiscovery(ctx context.Context, times int, wanted func(body []byte) (bool, error)) error {
	w := request{uri: discoveryPath, accept: acceptDiscovery}
	for {
		req, err := r.server.target.newRequest(ctx, w)
		if err != nil {
			return err
		}
		began, pause := time.Now(), servedPoll/5
		body, etag, err := r.conn.fetchTagged(req)
		if err != nil {
			return cause(ctx, err)
		}
		if len(body) > 0 {
			if done, err := wanted(body); done || err != nil {
				return err
			}
			pause = max(pause, time.Duration(times)*time.Since(began))
		}
		w.etag = etag
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// awaitAnswered returns when the objects of each sampled definition can be
// listed.
func (r *crdRun) awaitAnswered(ctx context.Context) error {
	asked, _ := r.opts.sampled()
	for _, i := range asked {
		w := request{uri: r.generator.Definition(i).Path("") + "?limit=1", accept: acceptJSON}
		for {
			_, err := r.body(ctx, w)
			if err == nil {
				break
			}
			var refused *statusError
			if !errors.As(err, &refused) {
				return cause(ctx, err)
			}
			if ended := sleep(ctx, servedPoll); ended != nil {
				return fmt.Errorf("%w; last answer: %w", ended, err)
			}
		}
	}
	return nil
}

// established returns when the last definition was, to the second.
func (r *crdRun) established(ctx context.Context) (time.Time, error) {
	var last time.Time
	token := ""
	for {
		var page definitionPage
		body, err := r.body(ctx, request{uri: fmt.Sprintf("%s?limit=%d&continue=%s", crdsPath, definitionsAPage, url.QueryEscape(token)), accept: acceptJSON})
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return last, fmt.Errorf("list definitions: %w", cause(ctx, err))
		}
		for _, item := range page.Items {
			at, ok := item.established()
			if !ok {
				return last, fmt.Errorf("definition %s is not established", item.Metadata.Name)
			}
			if at.After(last) {
				last = at
			}
		}
		if token = page.Metadata.Continue; token == "" {
			return last, nil
		}
	}
}

type definitionPage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []definitionState `json:"items"`
}

type definitionState struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type   string    `json:"type"`
			Status string    `json:"status"`
			Since  time.Time `json:"lastTransitionTime"`
		} `json:"conditions"`
	} `json:"status"`
}

func (d definitionState) established() (time.Time, bool) {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return c.Since, true
		}
	}
	return time.Time{}, false
}
