package sentobject

import "testing"

// TestJSON rewrites the resource versions of objects, lists and bookmarks, and refuses
// text that no API server writes for a built-in kind.
func TestJSON(t *testing.T) {
	t.Parallel()
	for text, item := range map[string]string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"resourceVersion":"1"}},"spec":{"a":[null,{}]}}`: `{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"123","labels":{"resourceVersion":"1"}},"spec":{"a":[null,{}]}}`,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}` + "\n":                                                                        `{"metadata":{"resourceVersion":"123"},"items":[]}` + "\n",
		`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"7","creationTimestamp":null},"spec":{}}`:                                     `{"metadata":{"resourceVersion":"123","creationTimestamp":null},"spec":{}}`,
	} {
		s, ok := Read(JSON, []byte(text))
		if !ok || s.Revision() != 7 {
			t.Errorf("%s: revision %d, %v", text, s.Revision(), ok)
			continue
		}
		if got := string(s.Append(nil, 7)); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
		if got := string(s.AppendItem(nil, 123)); got != item {
			t.Errorf("got  %s\nwant %s", got, item)
		}
	}
	for _, text := range []string{
		"", "{}", "null", `{"kind":"Pod"}`, `{"kind":"Pod","apiVersion":"v1"}`, `{"kind":"Pod","apiVersion":"v1","metadata":{}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}}`,
		`{"metadata":{"resourceVersion":"7"},"kind":"Pod","apiVersion":"v1"}`,
		`{"kind":"Pod","apiVersion":"v1","spec":{},"metadata":{"resourceVersion":"7"}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":7}}`,
		`{"kind": "Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}`,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a" ,"resourceVersion":"7"}}`,
	} {
		if _, ok := Read(JSON, []byte(text)); ok {
			t.Errorf("%s was taken for an object as it is sent", text)
		}
	}
	if s, ok := Read(JSON, []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"x"}}`)); !ok || s.Revision() != 0 {
		t.Errorf("a resource version that is no number is %d", s.Revision())
	}
}
