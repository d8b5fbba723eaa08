package apifeed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// codec reads what an API server sends in one media type.
type codec interface {
	// mediaType and watchMediaType are what to accept for a list and for a watch.
	mediaType() string
	watchMediaType() string
	// list reads a list or a page. The values of its objects are stored forms.
	list(body []byte) (list, error)
	// frames returns a function that reads the next frame. Its error is io.EOF, or wraps
	// it, at the end of the stream.
	frames(*bufio.Reader) func() (frame, error)
}

// jsonCodec reads JSON. A stored object names its version and kind. Items of a list of custom
// resources do, and list adds both names to the items of other lists.
type jsonCodec struct{}

func (jsonCodec) mediaType() string      { return "application/json" }
func (jsonCodec) watchMediaType() string { return "application/json" }

func (jsonCodec) list(body []byte) (l list, err error) {
	var answer struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta   `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return list{}, err
	}
	if l.revision, err = parseRevision(answer.Metadata.ResourceVersion); err != nil {
		return list{}, err
	}
	l.next, l.objects = answer.Metadata.Continue, make([]object, len(answer.Items))
	for i, item := range answer.Items {
		if l.objects[i], err = jsonObject(item); err != nil {
			return list{}, err
		}
		if !l.objects[i].hasKind {
			l.objects[i].value = withKind(item, answer.APIVersion, strings.TrimSuffix(answer.Kind, "List"))
		}
	}
	return l, nil
}

// withKind adds the version and the kind to an item of a list of built-in objects.
func withKind(item []byte, apiVersion, kind string) []byte {
	head := fmt.Sprintf("{%q:%q,%q:%q,", "kind", kind, "apiVersion", apiVersion)
	return append([]byte(head), bytes.TrimPrefix(item, []byte("{"))...)
}

func (jsonCodec) frames(r *bufio.Reader) func() (frame, error) {
	decoder := json.NewDecoder(r)
	return func() (frame, error) {
		var event struct {
			Type   apiwatch.EventType `json:"type"`
			Object json.RawMessage    `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			return frame{}, err
		}
		made := frame{kind: event.Type}
		if event.Type == apiwatch.Error {
			made.status = &metav1.Status{}
			return made, json.Unmarshal(event.Object, made.status)
		}
		var err error
		made.object, err = jsonObject(event.Object)
		return made, err
	}
}
