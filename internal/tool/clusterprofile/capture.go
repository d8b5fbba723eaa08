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

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/internal/account/distinct"
)

// Config says what to measure. All fields but Exclude are required.
type Config struct {
	// Client sends requests to the server at Host, as in "https://10.0.0.1:6443".
	Client *http.Client
	Host   string
	// Exclude are resources to leave out.
	Exclude []string
	// Sample is how many objects of each resource are read. The number of the others is
	// what the server says.
	Sample int
	// Progress is told of each resource before it is read.
	Progress func(resource string)
}

// collection is a resource that can be listed.
type collection struct {
	// resource is as in "deployments.apps", path as in "/apis/apps/v1/deployments".
	resource, path string
}

const (
	pageSize  = 500
	maxLabels = 20
	// maxKeys bounds the labels that are counted. Objects choose them.
	maxKeys = 2000
)

// errRefused means that the user may not list a resource.
var errRefused = errors.New("refused")

// Capture lists each resource that can be listed in pages and counts. It keeps no object.
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
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed, resp.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", errRefused, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %s to %s", resp.Status, uri)
	}
	return body, nil
}

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
	token, first := "", 0
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
			first = len(p.Items)
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
			r.ProtobufBytes = float64(len(body) / max(1, first))
		}
	}
	return r, nil
}

// sample counts the objects that were read.
type sample struct {
	sizes      []int
	namespaces map[string]int
	labels     keyCounts
	fields     keyCounts
	remaining  int64
}

type keyCounts map[string]*keyCount

type keyCount struct {
	objects int
	values  distinct.Counter
	// half is the number of values when half of the objects were seen.
	half int
}

func (k *keyCounts) add(key, value string) {
	if *k == nil {
		*k = keyCounts{}
	}
	c := (*k)[key]
	if c == nil {
		if len(*k) >= maxKeys {
			return
		}
		c = &keyCount{}
		(*k)[key] = c
	}
	c.objects++
	c.values.Add(xxhash.Sum64String(value))
	if c.objects&(c.objects-1) == 0 {
		c.half = c.values.Count()
	}
}

func (s *sample) add(item json.RawMessage) {
	var o struct {
		Metadata struct {
			Namespace string            `json:"namespace"`
			Labels    map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			NodeName any `json:"nodeName"`
		} `json:"spec"`
	}
	s.sizes = append(s.sizes, len(item))
	if json.Unmarshal(item, &o) != nil {
		return // an object with fields of other types: its size counts
	}
	if o.Metadata.Namespace != "" {
		if s.namespaces == nil {
			s.namespaces = map[string]int{}
		}
		s.namespaces[o.Metadata.Namespace]++
	}
	for key, value := range o.Metadata.Labels {
		s.labels.add(key, value)
	}
	if node, ok := o.Spec.NodeName.(string); ok && node != "" {
		s.fields.add("spec.nodeName", node)
	}
}

// resource computes the numbers of all objects from those that were read.
func (s *sample) resource(name string) *Resource {
	read := float64(len(s.sizes))
	scale := (read + float64(s.remaining)) / read
	slices.Sort(s.sizes)
	quantile := func(q float64) float64 { return float64(s.sizes[int(q*float64(len(s.sizes)-1))]) }
	sum := 0
	for _, n := range s.sizes {
		sum += n
	}
	r := &Resource{Resource: name, Objects: read * scale, Bytes: float64(sum) / read, Sizes: &Sizes{quantile(.5), quantile(.9), quantile(.99), quantile(1)}}
	// A LIST is in the order of namespaces, so those that were not read are like these.
	r.Namespaces = float64(len(s.namespaces)) * scale
	for _, n := range s.namespaces {
		r.LargestNamespace = max(r.LargestNamespace, float64(n))
	}
	r.Labels, r.Fields = s.labels.keys(scale), s.fields.keys(scale)
	return r
}

// keys returns the keys that most objects have. Values of a key grow with the objects if the
// second half of them brought many new ones.
func (k keyCounts) keys(scale float64) []Key {
	var all []Key
	for key, c := range k {
		values := float64(c.values.Count())
		if values > 1.3*float64(c.half) || values == float64(c.objects) {
			values *= scale
		}
		all = append(all, Key{Key: key, Objects: float64(c.objects) * scale, Values: values})
	}
	slices.SortFunc(all, func(a, b Key) int { return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), maxLabels)]
}
