package release

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// Names of files in a release, and suffixes of such names.
const (
	archiveSuffix  = ".tar.gz"
	sbomSuffix     = ".cdx.json"
	imageSuffix    = "-image.tar"
	provenanceFile = "provenance.json"
	bundleFile     = "provenance.sigstore.json"
	checksumsFile  = "SHA256SUMS"
	signatureFile  = "SHA256SUMS.sig"
)

const (
	payloadType = "application/vnd.in-toto+json"
	bundleType  = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// bundle is a signed statement in sigstore's form, which cosign reads: an envelope, and a hint
// of the key that signed it. It has no certificate and no entry of a transparency log.
type bundle struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Envelope *dsse.Envelope `json:"dsseEnvelope"`
}

// addChecksums adds the checksums of all files. With a key it first adds the signed
// provenance, and at last the signature of the checksums.
func (r *release) addChecksums(ctx context.Context) error {
	if r.cfg.Key != nil {
		if err := r.addBundle(ctx); err != nil {
			return fmt.Errorf("sign provenance: %w", err)
		}
	}
	var sums strings.Builder
	for _, name := range r.names() {
		fmt.Fprintf(&sums, "%s  %s\n", digest(r.files[name]), name)
	}
	r.files[checksumsFile] = []byte(sums.String())
	if r.cfg.Key == nil {
		return nil
	}
	signature, err := signer{r.cfg.Key}.Sign(ctx, r.files[checksumsFile])
	if err != nil {
		return fmt.Errorf("sign checksums: %w", err)
	}
	r.files[signatureFile] = signature
	return nil
}

// addBundle adds the signed provenance. The hint of the key is the digest of its public part.
func (r *release) addBundle(ctx context.Context) error {
	envelopes, err := dsse.NewEnvelopeSigner(signer{r.cfg.Key})
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(r.cfg.Key.Public())
	if err != nil {
		return err
	}
	hint := sha256.Sum256(public)
	signed := bundle{MediaType: bundleType}
	signed.Material.PublicKey.Hint = base64.StdEncoding.EncodeToString(hint[:])
	if signed.Envelope, err = envelopes.SignPayload(ctx, payloadType, r.files[provenanceFile]); err != nil {
		return err
	}
	r.files[bundleFile], err = json.Marshal(signed)
	return err
}

// verifySignatures checks that a key signed the checksums and the provenance.
func verifySignatures(ctx context.Context, files map[string][]byte, key crypto.PublicKey) error {
	for _, name := range []string{signatureFile, bundleFile} {
		if files[name] == nil {
			return fmt.Errorf("there is no %s: the release is not signed", name)
		}
	}
	if err := (verifier{key}).Verify(ctx, files[checksumsFile], files[signatureFile]); err != nil {
		return fmt.Errorf("verify %s: %w", signatureFile, err)
	}
	var signed bundle
	if err := json.Unmarshal(files[bundleFile], &signed); err != nil {
		return fmt.Errorf("decode %s: %w", bundleFile, err)
	}
	envelopes, err := dsse.NewEnvelopeVerifier(verifier{key})
	if err != nil {
		return fmt.Errorf("verify %s: %w", bundleFile, err)
	}
	_, payload, err := envelopes.VerifyAndDecode(ctx, signed.Envelope)
	if err != nil {
		return fmt.Errorf("verify %s: %w", bundleFile, err)
	}
	if signed.Envelope.PayloadType != payloadType || !bytes.Equal(payload, files[provenanceFile]) {
		return fmt.Errorf("%s does not sign %s", bundleFile, provenanceFile)
	}
	return nil
}
