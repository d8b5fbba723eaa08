package replay

// maxKeptBytes is the number of bytes that are kept of the start, and of the end, of an answer. A
// list has its metadata at the start. Lists of custom resources have it at the end.
const maxKeptBytes = 64 << 10

// headAndTail keeps the first and the last maxKeptBytes that are written to it.
type headAndTail struct{ head, tail []byte }

// Write implements io.Writer.
func (h *headAndTail) Write(b []byte) (int, error) {
	n := len(b)
	if room := maxKeptBytes - len(h.head); room > 0 {
		h.head = append(h.head, b[:min(room, n)]...)
	}
	b = b[max(0, n-maxKeptBytes):]
	if over := len(h.tail) + len(b) - maxKeptBytes; over > 0 {
		h.tail = append(h.tail[:0], h.tail[over:]...)
	}
	h.tail = append(h.tail, b...)
	return n, nil
}
