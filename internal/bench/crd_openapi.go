package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// openAPI reads both documents whole, as JSON.
func (b *crdBench) openAPI(ctx context.Context) error {
	var cost openAPICost
	var err error
	if cost.V2, err = b.timed(func() (int64, error) { return b.openAPIV2(ctx) }); err != nil {
		return err
	}
	if cost.V3, err = b.timed(func() (int64, error) {
		var n int64
		cost.V3Documents, n, err = b.openAPIV3(ctx)
		return n, err
	}); err != nil {
		return err
	}
	right, err := b.meter.read()
	if err != nil {
		return err
	}
	cost.RSSBytes = right.rss
	b.to.OpenAPI = &cost
	b.to.Read, err = b.settled(ctx)
	return err
}

// timed measures something that returns how many bytes it read.
func (b *crdBench) timed(read func() (int64, error)) (readCost, error) {
	before, err := b.meter.read()
	if err != nil {
		return readCost{}, err
	}
	start := time.Now()
	n, err := read()
	if err != nil {
		return readCost{}, err
	}
	took := time.Since(start)
	after, err := b.meter.read()
	return readCost{Seconds: took.Seconds(), Bytes: n, CPUSeconds: (after.cpu - before.cpu).Seconds()}, err
}

// openAPIV2 fails if the document lacks the last definition.
func (b *crdBench) openAPIV2(ctx context.Context) (int64, error) {
	body, err := b.body(ctx, request{uri: openAPIV2Path, accept: acceptJSON})
	if err != nil {
		return 0, err
	}
	last := b.generator.Definition(b.opts.data.CRDs - 1)
	if !bytes.Contains(body, []byte(`"`+last.Path("")+`"`)) {
		return 0, fmt.Errorf("read %s: it lacks %s", openAPIV2Path, last.Path(""))
	}
	return int64(len(body)), nil
}

// openAPIV3 reads the documents of all group versions and returns their number.
func (b *crdBench) openAPIV3(ctx context.Context) (documents int, size int64, err error) {
	all, err := b.openAPIV3Paths(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, uri := range all {
		body, err := b.body(ctx, request{uri: uri, accept: acceptJSON})
		if err != nil {
			return 0, 0, err
		}
		size += int64(len(body))
	}
	return len(all), size, nil
}

// openAPIV3Paths are the URIs of all documents, in the order of their names.
// There must be one for each group of fill.
func (r *crdRun) openAPIV3Paths(ctx context.Context) ([]string, error) {
	var root struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	body, err := r.body(ctx, request{uri: openAPIV3Path, accept: acceptJSON})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &root); err != nil {
		return nil, fmt.Errorf("decode %s: %w", openAPIV3Path, err)
	}
	for i := range r.opts.data.Groups {
		if name := "apis/" + r.generator.Definition(i).Group + "/v1"; root.Paths[name].URL == "" {
			return nil, fmt.Errorf("read %s: it lacks %s", openAPIV3Path, name)
		}
	}
	var uris []string
	for _, name := range slices.Sorted(maps.Keys(root.Paths)) {
		uris = append(uris, root.Paths[name].URL)
	}
	return uris, nil
}
