package transcode

import "bytes"

// maxDistinct bounds how many different values of a list are told apart. Lists with more
// have fingerprints of their own.
const maxDistinct = 32

// collection writes a list or a map with its name.
func (w *walker) collection(f *field, stored []byte) bool {
	if w.writes {
		w.name(f)
	}
	w.mix(f.token)
	return w.shared(f, stored, true)
}

// list writes a list. Its fingerprint is the set of its values' fingerprints: neither their
// order nor how often each occurs counts, but whether there are several.
func (w *walker) list(f *field, stored []byte) bool {
	if w.writes {
		w.dst = append(w.dst, '[')
	}
	base := len(w.distinct)
	var set uint64
	count := 0
	for i := 0; i < len(stored); count++ {
		if count > 0 && w.writes {
			w.dst = append(w.dst, ',')
		}
		w.hash = ^f.token
		next, ok := w.element(f, stored, i+int(f.tagSize))
		if !ok {
			return false
		}
		i = next
		set += w.unseen(base)
	}
	w.endCollection(base, set, count)
	if w.writes {
		w.dst = append(w.dst, ']')
	}
	return true
}

// element writes a list's value at i, and returns where the next is.
func (w *walker) element(f *field, stored []byte, i int) (int, bool) {
	if f.tag&7 != lengthDelimited {
		v, next := varint(stored, i)
		if next < 0 {
			return 0, false
		}
		w.mix(min(v, 1) | v>>63<<1)
		return next, w.writeNumber(f, v)
	}
	content, next := payload(stored, i)
	if next < 0 {
		return 0, false
	}
	if f.value == textValue {
		w.mixValue(f, content)
		if w.writes {
			w.dst = appendText(w.dst, content)
		}
		return next, true
	}
	return next, w.value(f, content)
}

// mapped writes a map, whose keys are stored in order. Its fingerprint is like a list's.
func (w *walker) mapped(f *field, stored []byte) bool {
	if w.writes {
		w.dst = append(w.dst, '{')
	}
	base := len(w.distinct)
	var set uint64
	var last []byte
	count := 0
	for i := 0; i < len(stored); count++ {
		entry, next := payload(stored, i+int(f.tagSize))
		if next < 0 {
			return false
		}
		i = next
		key, content, ok := splitEntry(entry)
		if !ok || count > 0 && bytes.Compare(last, key) >= 0 || content == nil && f.value != bytesValue {
			return false
		}
		w.incomplete = w.incomplete || content == nil
		if w.writes {
			if count > 0 {
				w.dst = append(w.dst, ',')
			}
			w.dst = append(appendText(w.dst, key), ':')
		}
		last, w.hash = key, ^f.token
		w.mixValue(f, key)
		if f.value == textValue {
			if w.writes {
				w.dst = appendText(w.dst, content)
			}
		} else if !w.value(f, content) {
			return false
		}
		set += w.unseen(base)
	}
	w.endCollection(base, set, count)
	if w.writes {
		w.dst = append(w.dst, '}')
	}
	return true
}

// splitEntry splits a map's entry into key and value. Kubernetes' encoder always writes
// both, except for a []byte that is nil: then content is nil.
func splitEntry(entry []byte) (key, content []byte, ok bool) {
	const keyTag, valueTag = 1<<3 | lengthDelimited, 2<<3 | lengthDelimited
	if len(entry) == 0 || entry[0] != keyTag {
		return nil, nil, false
	}
	key, i := payload(entry, 1)
	if i < 0 || i < len(entry) && entry[i] != valueTag {
		return nil, nil, false
	}
	if i == len(entry) {
		return key, nil, true
	}
	content, i = payload(entry, i+1)
	return key, content, i == len(entry)
}

// unseen returns the hash of the value that was walked, scrambled for a sum. It returns 0
// if an earlier value of the list has the same hash. base is where the list's hashes begin.
func (w *walker) unseen(base int) uint64 {
	own := w.distinct[base:]
	for _, h := range own {
		if h == w.hash {
			return 0
		}
	}
	if len(own) < maxDistinct {
		w.distinct = append(w.distinct, w.hash)
	}
	w.mix(endOfList)
	return w.hash
}

// endCollection makes the fingerprint of a list or map that was walked.
func (w *walker) endCollection(base int, set uint64, count int) {
	w.hash, w.distinct = set, w.distinct[:base]
	w.mix(uint64(min(count, 2)))
}
