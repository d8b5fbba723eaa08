package crd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// openAPI measures the first reads of OpenAPI v2 and of all documents of v3, as JSON.
func (b *bench) openAPI(ctx context.Context) error {
	var cost openAPICost
	var err error
	if cost.V2, err = b.measureRead(func() (int64, error) { return b.openAPIV2(ctx) }); err != nil {
		return err
	}
	if cost.V3, err = b.measureRead(func() (int64, error) {
		var n int64
		cost.V3Documents, n, err = b.openAPIV3(ctx)
		return n, err
	}); err != nil {
		return err
	}
	after, err := b.Meter.Read()
	if err != nil {
		return err
	}
	cost.RSSBytes = after.RSS
	b.result.OpenAPI = &cost
	b.result.AfterOpenAPI, err = b.AwaitIdle(ctx)
	return err
}

// measureRead measures read, which returns the number of bytes that it has read.
func (b *bench) measureRead(read func() (int64, error)) (readCost, error) {
	before, err := b.Meter.Read()
	if err != nil {
		return readCost{}, err
	}
	start := time.Now()
	n, err := read()
	if err != nil {
		return readCost{}, err
	}
	took := time.Since(start)
	after, err := b.Meter.Read()
	return readCost{Seconds: took.Seconds(), Bytes: n, CPUSeconds: (after.CPU - before.CPU).Seconds()}, err
}

// openAPIV2 reads the document of v2, and returns its size in bytes. The document must have the
// last definition.
func (b *bench) openAPIV2(ctx context.Context) (int64, error) {
	body, err := b.Get(ctx, testbed.Request{URI: OpenAPIV2Path, Accept: testbed.AcceptJSON})
	if err != nil {
		return 0, err
	}
	last := b.Generator.Definition(b.opts.Data.CRDs - 1)
	if !bytes.Contains(body, []byte(`"`+last.Path("")+`"`)) {
		return 0, fmt.Errorf("read %s: it lacks %s", OpenAPIV2Path, last.Path(""))
	}
	return int64(len(body)), nil
}

// openAPIV3 reads the documents of all group versions. It returns their number, and the sum of
// their sizes in bytes.
func (b *bench) openAPIV3(ctx context.Context) (documents int, size int64, err error) {
	uris, err := b.openAPIV3Paths(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, uri := range uris {
		body, err := b.Get(ctx, testbed.Request{URI: uri, Accept: testbed.AcceptJSON})
		if err != nil {
			return 0, 0, err
		}
		size += int64(len(body))
	}
	return len(uris), size, nil
}

// openAPIV3Paths returns the URIs of all documents, in the order of their names. There
// must be a document for each group of the definitions.
func (f *Fixture) openAPIV3Paths(ctx context.Context) ([]string, error) {
	var root struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	body, err := f.Get(ctx, testbed.Request{URI: OpenAPIV3Path, Accept: testbed.AcceptJSON})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &root); err != nil {
		return nil, fmt.Errorf("decode %s: %w", OpenAPIV3Path, err)
	}
	for i := range f.opts.Data.Groups {
		if name := "apis/" + f.Generator.Definition(i).Group + "/v1"; root.Paths[name].URL == "" {
			return nil, fmt.Errorf("read %s: it lacks %s", OpenAPIV3Path, name)
		}
	}
	var uris []string
	for _, name := range slices.Sorted(maps.Keys(root.Paths)) {
		uris = append(uris, root.Paths[name].URL)
	}
	return uris, nil
}
