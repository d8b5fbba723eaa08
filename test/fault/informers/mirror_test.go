package informers

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
)

// scope describes the objects that a mirror selects.
type scope struct {
	kind kind
	// namespaces restricts the scope. Empty means all namespaces.
	namespaces []string
	selection
}

func (s scope) String() string {
	text := s.kind.resource.Resource
	if len(s.namespaces) > 0 {
		text += " in " + strings.Join(s.namespaces, ",")
	}
	if s.labels != "" {
		text += " with labels " + s.labels
	}
	if s.fields != "" {
		text += " with fields " + s.fields
	}
	return text
}

// mirror is a copy of a part of the server's state. It must become equal to
// that part.
type mirror struct {
	name string
	scope
	// contents returns the resource versions of the objects by key.
	contents func(ctx context.Context) (map[string]string, error)
}

// state holds all objects by resource.
type state map[string][]unstructured.Unstructured

// readState lists all kinds consistently. The lists form one state if no writes
// happen meanwhile.
func readState(ctx context.Context, client dynamic.Interface) (state, error) {
	s := state{}
	for _, k := range kinds() {
		list, err := client.Resource(k.resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.resource.Resource, err)
		}
		s[k.resource.Resource] = list.Items
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(k.gvk())
		}
	}
	return s, nil
}

// selected returns the objects of a scope. It evaluates selectors itself,
// independently of the server.
func (s state) selected(by scope) (map[string]string, error) {
	byLabels, err := labels.Parse(by.labels)
	if err != nil {
		return nil, err
	}
	byFields, err := fields.ParseSelector(by.fields)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for i := range s[by.kind.resource.Resource] {
		u := &s[by.kind.resource.Resource][i]
		if len(by.namespaces) > 0 && !slices.Contains(by.namespaces, u.GetNamespace()) {
			continue
		}
		if byLabels.Matches(labels.Set(u.GetLabels())) && byFields.Matches(fieldsOf(u)) {
			found[key(u)] = u.GetResourceVersion()
		}
	}
	return found, nil
}

func key(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// difference describes how got differs from want. It is empty if they are
// equal.
func difference(want, got map[string]string) string {
	var lines []string
	for key, version := range want {
		if other, ok := got[key]; !ok {
			lines = append(lines, fmt.Sprintf("%s is missing (%s)", key, version))
		} else if other != version {
			lines = append(lines, fmt.Sprintf("%s at %s, want %s", key, other, version))
		}
	}
	for key, version := range got {
		if _, ok := want[key]; !ok {
			lines = append(lines, fmt.Sprintf("%s should not be there (%s)", key, version))
		}
	}
	sort.Strings(lines)
	if len(lines) > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", len(lines)-5))
	}
	return strings.Join(lines, "; ")
}

// converge waits until all mirrors equal the server's state at the same time,
// and returns how long that took. There must be no writes meanwhile.
func (cl *cluster) converge(client dynamic.Interface, mirrors []mirror) time.Duration {
	cl.t.Helper()
	began := time.Now()
	cl.eventually(func(ctx context.Context) error {
		now, err := readState(ctx, client)
		if err != nil {
			return err
		}
		return now.compare(ctx, mirrors)
	})
	return time.Since(began)
}

// compare returns an error that names the mirrors which differ from s.
func (s state) compare(ctx context.Context, mirrors []mirror) error {
	var differ []string
	for _, m := range mirrors {
		want, err := s.selected(m.scope)
		if err != nil {
			return err
		}
		got, err := m.contents(ctx)
		if err != nil {
			return fmt.Errorf("read %s: %w", m.name, err)
		}
		if text := difference(want, got); text != "" {
			differ = append(differ, fmt.Sprintf("%s of %s: %s", m.name, m.scope, text))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d differ:\n%s", len(differ), len(mirrors), strings.Join(differ[:min(5, len(differ))], "\n"))
}
