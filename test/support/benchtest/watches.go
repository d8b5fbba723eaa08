package benchtest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	parser "k8s.io/apiserver/pkg/sharding"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const configMapURI = "/api/v1/namespaces/default/configmaps"

// Watches is the part of an API that "bench watch" uses: writes of config maps, patches of
// pods, and watches that receive them.
type Watches struct {
	ExtraCopies     int  // how often each event is sent again
	EndAfterEvent   bool // a watch ends after its first event
	WithoutStamps   bool // events have no stamps
	LossyWatchLists bool // every second watch-list lacks an object
	IgnoresShards   bool // shardSelector has no effect

	mu struct {
		sync.Mutex
		objects map[string]string // config maps by name
		streams map[chan []byte]watchedPart
		lists   int
	}
}

// watchedPart describes the objects whose events a watch receives.
type watchedPart struct {
	selector string            // field selector, compared as text; empty: all objects
	shard    sharding.Selector // nil: all objects
}

// has reports whether the watch receives the events of an object. The object's name stands for
// its UID.
func (p *watchedPart) has(selector, name string) bool {
	inShard := p.shard == nil
	if !inShard {
		inShard, _ = p.shard.Matches(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}})
	}
	return inShard && (p.selector == "" || p.selector == selector)
}

// serve answers a request for config maps, pods or a watch-list of secrets. It returns false for
// another request. secrets is the number of secrets.
func (f *Watches) serve(w http.ResponseWriter, r *http.Request, secrets int) bool {
	name, named := strings.CutPrefix(r.URL.Path, configMapURI+"/")
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		f.watchList(w, r, secrets)
	case query.Get("watch") == "true":
		part := watchedPart{selector: query.Get("fieldSelector")}
		if selector := query.Get("shardSelector"); selector != "" && !f.IgnoresShards {
			var err error
			if part.shard, err = parser.Parse(selector); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return true
			}
		}
		f.watch(w, r, part)
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		pod := strings.Split(r.URL.Path, "/")[6]
		f.send("spec.nodeName="+strings.Replace(pod, "pod-", "node-", 1), pod, body)
	case named && r.Method == http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		f.setObject(name, string(body))
		f.send("metadata.name="+name, name, body)
	case named && r.Method == http.MethodDelete:
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.objects, name)
	case named:
		f.mu.Lock()
		defer f.mu.Unlock()
		io.WriteString(w, f.mu.objects[name])
	case r.URL.Path == configMapURI && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
	case r.URL.Path == "/api/v1/pods" && query.Get("shardSelector") != "" && !f.IgnoresShards:
		io.WriteString(w, `{"metadata":{"resourceVersion":"7","shardInfo":{"selector":"x"}}}`)
	case r.URL.Path == configMapURI:
		f.mu.Lock()
		defer f.mu.Unlock()
		all := strings.Join(slices.Collect(maps.Values(f.mu.objects)), ",")
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"7"},"items":[%s]}`, all)
	case r.URL.Path == "/api/v1/pods" && query.Get("limit") == "1":
		io.WriteString(w, `{"metadata":{"resourceVersion":"7"}}`)
	default:
		return false
	}
	return true
}

func (f *Watches) setObject(name, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.objects == nil {
		f.mu.objects = map[string]string{}
	}
	f.mu.objects[name] = body
}

// ConfigMaps returns the number of config maps that exist.
func (f *Watches) ConfigMaps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.objects)
}

// send sends the event of an object to the watches that receive it. selector is the field
// selector that selects the object.
func (f *Watches) send(selector, name string, object []byte) {
	event := testbed.ModifiedEvent(object)
	if f.WithoutStamps {
		event = testbed.ModifiedEvent([]byte("{}"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for stream, part := range f.mu.streams {
		if part.has(selector, name) {
			select {
			case stream <- event:
			default: // the watcher is stalled, and misses the event
			}
		}
	}
}

// Frame returns the protobuf frame of a MODIFIED event that is given as JSON. The frame has only
// the event's type and stamp, and padding.
func Frame(event []byte) []byte {
	body := append([]byte{1<<3 | 2, byte(len("MODIFIED"))}, "MODIFIED"...)
	body = append(body, make([]byte, 600)...)
	if at := bytes.Index(event, []byte(testbed.StampMark)); at >= 0 {
		body = append(body, testbed.StampMarkProtobuf...)
		body = append(body, event[at+len(testbed.StampMark):][:testbed.StampDigits]...)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// watch sends the events of a part until the client is gone.
func (f *Watches) watch(w http.ResponseWriter, r *http.Request, part watchedPart) {
	stream := make(chan []byte, 1000)
	f.mu.Lock()
	if f.mu.streams == nil {
		f.mu.streams = map[chan []byte]watchedPart{}
	}
	f.mu.streams[stream] = part
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.streams, stream)
	}()
	out, flush := io.Writer(w), func() { w.(http.Flusher).Flush() }
	if r.Header.Get("Accept-Encoding") == testbed.EncodingGzip {
		w.Header().Set("Content-Encoding", testbed.EncodingGzip)
		zip := gzip.NewWriter(w)
		out, flush = zip, func() { zip.Flush(); w.(http.Flusher).Flush() }
	}
	flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-stream:
			if strings.HasPrefix(r.Header.Get("Accept"), testbed.AcceptProtobuf) {
				event = Frame(event)
			}
			for range 1 + f.ExtraCopies {
				out.Write(event)
			}
			flush()
			if f.EndAfterEvent {
				return
			}
		}
	}
}

// watchList sends objects secrets and the bookmark after them, and then nothing.
func (f *Watches) watchList(w http.ResponseWriter, r *http.Request, objects int) {
	f.mu.Lock()
	f.mu.lists++
	if f.LossyWatchLists && f.mu.lists%2 == 0 {
		objects--
	}
	f.mu.Unlock()
	for i := range objects {
		fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"s%d"},"data":{"x":%q}}}`+"\n", i, strings.Repeat("QUJD", 3000))
	}
	io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"Secret","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}
