package clusterprofile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collections returns all resources that the server can list. Each has the version that the server
// prefers, or another version if the preferred version lacks the resource. A group version whose
// server does not answer is left out.
func (cfg *Config) collections(ctx context.Context) ([]collection, error) {
	var core metav1.APIVersions
	var all metav1.APIGroupList
	if err := errors.Join(cfg.decode(ctx, "/api", &core), cfg.decode(ctx, "/apis", &all)); err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	var found []collection
	seen := make(map[string]bool)
	add := func(path, group string) error {
		var r metav1.APIResourceList
		if err := cfg.decode(ctx, path, &r); err != nil {
			return err
		}
		for _, resource := range r.APIResources {
			name := resource.Name
			if group != "" {
				name += "." + group
			}
			if !seen[name] && slices.Contains(resource.Verbs, "list") {
				seen[name] = true
				found = append(found, collection{name, path + "/" + resource.Name})
			}
		}
		return nil
	}
	var failed error
	for _, version := range core.Versions {
		failed = errors.Join(failed, add("/api/"+version, ""))
	}
	for _, g := range all.Groups {
		for _, v := range slices.Insert(g.Versions, 0, g.PreferredVersion) {
			if group, _, ok := strings.Cut(v.GroupVersion, "/"); ok {
				failed = errors.Join(failed, add("/apis/"+v.GroupVersion, group))
			}
		}
	}
	if len(found) == 0 && failed != nil {
		return nil, fmt.Errorf("read discovery: %w", failed)
	}
	return found, nil
}

// decode gets uri and decodes the JSON of the answer into v.
func (cfg *Config) decode(ctx context.Context, uri string, v any) error {
	body, err := cfg.get(ctx, uri, "application/json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode the answer to %s: %w", uri, err)
	}
	return nil
}
