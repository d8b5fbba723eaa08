package replay

// maxKept is how many bytes of the start, and of the end, of an answer are kept. A list has
// its metadata at the start. Lists of custom resources have it at the end.
const maxKept = 64 << 10

// headAndTail keeps the first and the last maxKept bytes that are written to it.
type headAndTail struct{ head, tail []byte }

// Write implements io.Writer.
func (h *headAndTail) Write(b []byte) (int, error) {
	n := len(b)
	if room := maxKept - len(h.head); room > 0 {
		h.head = append(h.head, b[:min(room, n)]...)
	}
	b = b[max(0, n-maxKept):]
	if over := len(h.tail) + len(b) - maxKept; over > 0 {
		h.tail = append(h.tail[:0], h.tail[over:]...)
	}
	h.tail = append(h.tail, b...)
	return n, nil
}
