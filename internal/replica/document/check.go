package document

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// checkResult is what became of a question to the upstream. The values are labels of a
// metric.
type checkResult string

const (
	// checkUnchanged: the upstream has confirmed the document by its ETag.
	checkUnchanged checkResult = "unchanged"
	// checkChanged: the upstream has sent a document.
	checkChanged checkResult = "changed"
	// checkRefused: the upstream has sent what is not kept: an error, or more than there is room
	// for.
	checkRefused checkResult = "refused"
	// checkFailed: the upstream did not answer, or is overloaded.
	checkFailed checkResult = "failed"
)

// checkAnswer is the upstream's answer to a question. document is nil if requests must be
// passed on.
type checkAnswer struct {
	document *document
	result   checkResult
}

const (
	// checkTimeout bounds a question. Documents of OpenAPI have tens of megabytes.
	checkTimeout = 10 * time.Second
	// readBytes is how many bytes of an answer are admitted and read at a time.
	readBytes = 64 << 10
	// documentShare divides Config.Bytes: one document may take one part in documentShare.
	documentShare = 2
)

// check asks the upstream about a document on behalf of all requests that wait for it, and
// records the answer. ctx is the context of one of these requests. Its end does not end the
// question.
func (d *Documents) check(ctx context.Context, e *entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	answer := checkAnswer{result: checkFailed}
	defer func() {
		d.cfg.Metrics.DocumentChecks.WithLabelValues(string(answer.result)).Inc()
		d.settle(e, answer)
	}()
	answer = d.ask(ctx, e.key, d.documentOf(e))
}

func (d *Documents) documentOf(e *entry) *document {
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.document
}

// ask sends a question. known is the document that may be current, or nil.
func (d *Documents) ask(ctx context.Context, k key, known *document) checkAnswer {
	header := question(k, known)
	resp, err := d.cfg.Door.Document(ctx, k.target, header)
	if err != nil {
		return checkAnswer{result: checkFailed}
	}
	defer resp.Body.Close()
	asked := len(header["If-None-Match"]) > 0
	switch {
	case asked && resp.StatusCode == http.StatusNotModified:
		return checkAnswer{known.confirmed(resp.Header), checkUnchanged}
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		return checkAnswer{result: checkFailed}
	}
	// A document with a client's address in it has no ETag, and a key with the address.
	plain := k.target.Path() == "/api" && k.address == "" && resp.Header.Get("Etag") == ""
	made := newDocument(resp)
	if made == nil || plain {
		return checkAnswer{result: checkRefused}
	}
	made.unconditional = asked && made.matches(known.etag)
	switch made.body, err = d.read(resp); {
	case errors.Is(err, errTooLarge):
		return checkAnswer{result: checkRefused}
	case err != nil:
		return checkAnswer{result: checkFailed}
	}
	return checkAnswer{made, checkChanged}
}

// question makes the headers of the request for a document.
func question(k key, known *document) http.Header {
	header := http.Header{}
	set := func(name, value string) {
		if value != "" {
			header.Set(name, value)
		}
	}
	set("Accept", k.accept)
	set("Accept-Encoding", k.encoding)
	set("X-Forwarded-For", k.address)
	if k.pretty {
		set("User-Agent", upstream.IndentedAgent+" (millrace-replica)")
	}
	if known != nil && known.status == http.StatusOK {
		set("If-None-Match", known.etag)
	}
	return header
}

var errTooLarge = errors.New("the document is too large to keep")

// read reads a body. It returns errTooLarge for a body beyond documentShare, and if too much
// is being read at the time.
func (d *Documents) read(resp *http.Response) ([]byte, error) {
	largest := d.cfg.Bytes / documentShare
	if resp.ContentLength > largest {
		return nil, errTooLarge
	}
	var body bytes.Buffer
	var admitted int64
	defer func() { d.reading.Release(admitted) }()
	for {
		if admitted+readBytes > largest || !d.reading.TryAcquire(readBytes) {
			return nil, errTooLarge
		}
		admitted += readBytes
		if _, err := io.CopyN(&body, resp.Body, readBytes); errors.Is(err, io.EOF) {
			return bytes.Clone(body.Bytes()), nil
		} else if err != nil {
			return nil, err
		}
	}
}
