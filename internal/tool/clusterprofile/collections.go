package clusterprofile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// groups is what the answers to /api and /apis have in common: the former has the versions of
// the core group.
type groups struct {
	Versions []string `json:"versions"`
	Groups   []struct {
		Versions  []groupVersion `json:"versions"`
		Preferred groupVersion   `json:"preferredVersion"`
	} `json:"groups"`
}

type groupVersion struct {
	GroupVersion string `json:"groupVersion"`
}

// resources is what a group version has.
type resources struct {
	Resources []struct {
		Name  string   `json:"name"`
		Verbs []string `json:"verbs"`
	} `json:"resources"`
}

// Collections asks a server for all resources that can be listed, each in the version that the
// server prefers, or in another one if that version lacks it. A group version whose server does
// not answer is left out.
func Collections(ctx context.Context, client *http.Client, host string) ([]Collection, error) {
	cfg := Config{Client: client, Host: host}
	var core, all groups
	if err := errors.Join(cfg.decode(ctx, "/api", &core), cfg.decode(ctx, "/apis", &all)); err != nil {
		return nil, fmt.Errorf("read discovery: %w", err)
	}
	var found []Collection
	seen := make(map[string]bool)
	add := func(path, group string) error {
		var r resources
		if err := cfg.decode(ctx, path, &r); err != nil {
			return err
		}
		for _, resource := range r.Resources {
			name := resource.Name
			if group != "" {
				name += "." + group
			}
			if !seen[name] && slices.Contains(resource.Verbs, "list") {
				seen[name] = true
				found = append(found, Collection{Resource: name, Path: path + "/" + resource.Name})
			}
		}
		return nil
	}
	var failed error
	for _, version := range core.Versions {
		failed = errors.Join(failed, add("/api/"+version, ""))
	}
	for _, g := range all.Groups {
		for _, v := range slices.Insert(g.Versions, 0, g.Preferred) {
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

// decode reads the JSON of an answer into v.
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
