package clusterprofile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"
)

// Config says what to measure. All fields but Exclude are required.
type Config struct {
	// Client sends requests to the server at Host, as in "https://10.0.0.1:6443".
	Client *http.Client
	Host   string
	// Exclude are names of resources to leave out, as in "deployments.apps".
	Exclude []string
	// Sample is the number of objects of each resource to read, rounded up to whole pages. The
	// server says how many objects remain after them.
	Sample int
	// Progress is called before each resource is read.
	Progress func(resource string)
}

// collection is a resource that can be listed.
type collection struct {
	resource string // as in "deployments.apps"
	path     string // as in "/apis/apps/v1/deployments"
}

const (
	pageSize = 500 // objects of a LIST
	// maxLabels bounds the labels of a resource in a profile.
	maxLabels = 20
	// maxKeys bounds the labels that are counted: objects may have any number of them.
	maxKeys = 2000
)

// errRefused says that the server does not list a resource, or not for this user.
var errRefused = errors.New("refused")

// Capture returns a profile of the cluster. It lists each resource that can be listed, in pages,
// and keeps no object. A resource that the server refuses becomes one of the profile's Notes.
func Capture(ctx context.Context, cfg Config) (*Profile, error) {
	collections, err := cfg.collections(ctx)
	if err != nil {
		return nil, err
	}
	p := &Profile{Time: time.Now().UTC().Truncate(time.Second)}
	var version version.Info
	if body, err := cfg.get(ctx, "/version", "application/json"); err != nil {
		return nil, err
	} else if json.Unmarshal(body, &version) == nil {
		p.Version = version.GitVersion
	}
	for _, c := range collections {
		if slices.Contains(cfg.Exclude, c.resource) {
			continue
		}
		cfg.Progress(c.resource)
		r, err := cfg.measure(ctx, c)
		switch {
		case errors.Is(err, errRefused):
			p.Notes = append(p.Notes, fmt.Sprintf("%s: %v", c.resource, err))
		case err != nil:
			return nil, fmt.Errorf("measure %s: %w", c.resource, err)
		case r != nil:
			p.Resources = append(p.Resources, *r)
		}
	}
	slices.SortFunc(p.Resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(b.Objects*b.Bytes, a.Objects*a.Bytes), cmp.Compare(a.Resource, b.Resource))
	})
	return p, nil
}

// get returns the body of an answer with the status 200. The error is an errRefused if the server
// does not serve uri, or not to this user.
func (cfg *Config) get(ctx context.Context, uri, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(cfg.Host, "/")+uri, nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", accept)
	resp, err := cfg.Client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", cfg.Host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case slices.Contains(refusals, resp.StatusCode):
		return nil, fmt.Errorf("%w: %s", errRefused, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %s to %s", resp.Status, uri)
	}
	return body, nil
}

// refusals are the statuses of a resource that cannot be listed.
var refusals = []int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusServiceUnavailable}

// page is a page of a LIST.
type page struct {
	Metadata struct {
		Continue  string `json:"continue"`
		Remaining int64  `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// measure returns the numbers of a resource, nil if it has no objects.
func (cfg *Config) measure(ctx context.Context, c collection) (*Resource, error) {
	var s sample
	var token string
	firstPage := 0 // number of its objects
	for {
		uri := fmt.Sprintf("%s?limit=%d&continue=%s", c.path, pageSize, url.QueryEscape(token))
		body, err := cfg.get(ctx, uri, "application/json")
		if err != nil {
			return nil, err
		}
		var p page
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		for _, item := range p.Items {
			s.add(item)
		}
		if token == "" {
			firstPage = len(p.Items)
		}
		s.remaining = max(0, p.Metadata.Remaining)
		if token = p.Metadata.Continue; token == "" || len(s.sizes) >= cfg.Sample {
			break
		}
	}
	if len(s.sizes) == 0 {
		return nil, nil
	}
	r := s.resource(c.resource)
	if BuiltIn(c.resource) {
		body, err := cfg.get(ctx, fmt.Sprintf("%s?limit=%d", c.path, pageSize), "application/vnd.kubernetes.protobuf")
		if err == nil {
			r.ProtobufBytes = float64(len(body) / max(1, firstPage))
		}
	}
	return r, nil
}
