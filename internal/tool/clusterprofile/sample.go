package clusterprofile

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/millrace/millrace/internal/account/distinct"
)

// sample counts the objects of one resource that were read.
type sample struct {
	sizes      []int          // bytes of each object as JSON
	namespaces map[string]int // objects of each namespace
	labels     keyCounts
	fields     keyCounts
	remaining  int64 // objects that were not read
}

// keyCounts counts objects and values by the key of a label or field.
type keyCounts map[string]*keyCount

type keyCount struct {
	objects int
	values  distinct.Counter
	// half is the number of distinct values when objects was last a power of two. It is for half of
	// the objects or more.
	half int
}

// add counts an object with a value of a key. It ignores new keys beyond maxKeys.
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

// add counts an object, which is JSON.
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
		return // the fields have other types than in Kubernetes: only the size counts
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

// resource returns the numbers of all objects, extrapolated from the objects that were read.
func (s *sample) resource(name string) *Resource {
	count := float64(len(s.sizes))
	scale := (count + float64(s.remaining)) / count
	slices.Sort(s.sizes)
	quantile := func(q float64) float64 { return float64(s.sizes[int(q*float64(len(s.sizes)-1))]) }
	sum := 0
	for _, n := range s.sizes {
		sum += n
	}
	r := &Resource{Resource: name, Objects: count * scale, Bytes: float64(sum) / count,
		Sizes: &Sizes{quantile(.5), quantile(.9), quantile(.99), quantile(1)}}
	// A LIST is in the order of namespaces, so the sample has whole namespaces.
	r.Namespaces = float64(len(s.namespaces)) * scale
	for _, n := range s.namespaces {
		r.LargestNamespace = max(r.LargestNamespace, float64(n))
	}
	r.Labels, r.Fields = s.labels.keys(scale), s.fields.keys(scale)
	return r
}

// keys returns the keys that most objects have. The number of a key's values is taken to grow with
// the objects if the second half of the sample brought many new values.
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
