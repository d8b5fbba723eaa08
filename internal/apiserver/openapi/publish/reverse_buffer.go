package publish

import "google.golang.org/protobuf/encoding/protowire"

// reverseBuffer is written from its end to its beginning. So the size of a message is known
// when it has to be written before the message.
type reverseBuffer struct {
	buf  []byte
	from int
}

func (b *reverseBuffer) put(p string) {
	if b.from < len(p) {
		grown := make([]byte, 2*len(b.buf)+len(p)+1024)
		from := len(grown) - b.size()
		copy(grown[from:], b.bytes())
		b.buf, b.from = grown, from
	}
	b.from -= len(p)
	copy(b.buf[b.from:], p)
}

func (b *reverseBuffer) bytes() []byte { return b.buf[b.from:] }

func (b *reverseBuffer) size() int { return len(b.buf) - b.from }

func (b *reverseBuffer) fill(t protoTemplate, f *nameFiller) {
	for i := len(t) - 1; i >= 0; i-- {
		if part := &t[i]; part.tag != nil {
			end := b.size()
			for k := len(part.text) - 1; k >= 0; k-- {
				b.put(f.forms[part.text[k].name])
				b.put(part.text[k].text)
			}
			b.fill(part.inside, f)
			b.put(string(protowire.AppendVarint(nil, uint64(b.size()-end))))
			b.put(string(part.tag))
		}
		b.put(string(t[i].before))
	}
}
