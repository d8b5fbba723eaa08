package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// discoveryDocument is the part of aggregated discovery that countResources reads.
type discoveryDocument struct {
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

// countResources returns the number of resources of the definitions that package fill has made.
func (d *discoveryDocument) countResources() int {
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

// AwaitListed returns when aggregated discovery lists exactly count resources of definitions.
func (f *Fixture) AwaitListed(ctx context.Context, count int) error {
	listed := 0
	err := f.AwaitDiscovery(ctx, documentPauseFactor, func(body []byte) (bool, error) {
		var d discoveryDocument
		if err := json.Unmarshal(body, &d); err != nil {
			return false, fmt.Errorf("decode discovery: %w", err)
		}
		listed = d.countResources()
		return listed == count, nil
	})
	if err != nil {
		return fmt.Errorf("wait until discovery lists %d resources (it lists %d): %w", count, listed, err)
	}
	return nil
}

// AwaitDiscovery polls aggregated discovery until accept returns true for a document, or an
// error. The polls cost the server little: they have an ETag, so that an unchanged document is
// not sent. After a changed document AwaitDiscovery pauses for pauseFactor times the duration of
// that read, because documents may change all the time.
func (f *Fixture) AwaitDiscovery(ctx context.Context, pauseFactor int, accept func(body []byte) (bool, error)) error {
	request := testbed.Request{URI: DiscoveryPath, Accept: AcceptDiscovery}
	for {
		req, err := f.Server.Target.NewRequest(ctx, request)
		if err != nil {
			return err
		}
		start, pause := time.Now(), pollInterval/5
		body, etag, err := f.Conn.FetchTagged(req)
		if err != nil {
			return testbed.Cause(ctx, err)
		}
		if len(body) > 0 {
			if done, err := accept(body); done || err != nil {
				return err
			}
			pause = max(pause, time.Duration(pauseFactor)*time.Since(start))
		}
		request.ETag = etag
		if err := testbed.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// AwaitAnswered returns when LISTs of the objects of each sampled definition succeed.
func (f *Fixture) AwaitAnswered(ctx context.Context) error {
	listed, _ := f.opts.sampleDefinitions()
	for _, i := range listed {
		request := testbed.Request{URI: f.Generator.Definition(i).Path("") + "?limit=1", Accept: testbed.AcceptJSON}
		for {
			_, err := f.Get(ctx, request)
			if err == nil {
				break
			}
			var status *testbed.StatusError
			if !errors.As(err, &status) {
				return testbed.Cause(ctx, err)
			}
			if cause := testbed.Sleep(ctx, pollInterval); cause != nil {
				return fmt.Errorf("%w; last answer: %w", cause, err)
			}
		}
	}
	return nil
}

// lastEstablished returns the time of the last condition Established of all definitions, with a
// precision of a second. It returns an error if a definition is not established.
func (f *Fixture) lastEstablished(ctx context.Context) (time.Time, error) {
	var last time.Time
	token := ""
	for {
		var page definitionPage
		uri := fmt.Sprintf("%s?limit=%d&continue=%s", DefinitionsPath, definitionsPerPage, url.QueryEscape(token))
		body, err := f.Get(ctx, testbed.Request{URI: uri, Accept: testbed.AcceptJSON})
		if err == nil {
			err = json.Unmarshal(body, &page)
		}
		if err != nil {
			return last, fmt.Errorf("list definitions: %w", testbed.Cause(ctx, err))
		}
		for _, item := range page.Items {
			at, ok := item.establishedAt()
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

// definitionPage is a page of a LIST of definitions.
type definitionPage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []definitionState `json:"items"`
}

// definitionState is the part of a definition that says whether it is established.
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

// establishedAt returns when the definition was established, and whether it was.
func (d definitionState) establishedAt() (time.Time, bool) {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return c.Since, true
		}
	}
	return time.Time{}, false
}
