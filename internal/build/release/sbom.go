package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// sbom returns the bill of materials of an executable, in CycloneDX's form, and the version of
// Go that built it. The bill has the executable's digest, and the modules that Go's linker
// records in it, with versions and sums. It has no dependencies between modules, as the
// executable does not record them.
func sbom(name string, executable []byte, source *Source) (data []byte, goVersion string, err error) {
	info, err := buildinfo.Read(bytes.NewReader(executable))
	if err != nil {
		return nil, "", fmt.Errorf("read build info: %w", err)
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	url := moduleURL(info.Main.Path, source.Version)
	url.Subpath = strings.TrimPrefix(info.Path, info.Main.Path+"/")
	url.Qualifiers = packageurl.QualifiersFromMap(map[string]string{"goos": settings["GOOS"], "goarch": settings["GOARCH"]})
	program := component(cdx.ComponentTypeApplication, url)
	program.Name = name
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(executable))}}
	modules := []cdx.Component{component(cdx.ComponentTypeLibrary, moduleURL("std", strings.TrimPrefix(info.GoVersion, "go")))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		added := component(cdx.ComponentTypeLibrary, moduleURL(module.Path, module.Version))
		if added.Hashes, err = hashes(module); err != nil {
			return nil, "", err
		}
		modules = append(modules, added)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: source.Time.UTC().Format(time.RFC3339), Component: &program}
	bom.Components = &modules
	var out bytes.Buffer
	// Most tools that read SBOMs know this version.
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, "", fmt.Errorf("encode SBOM: %w", err)
	}
	return out.Bytes(), info.GoVersion, nil
}

// moduleURL returns a module's package URL.
func moduleURL(module, version string) *packageurl.PackageURL {
	return packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(module, path.Base(module)), path.Base(module), version, nil, "")
}

// component returns the component that a package URL names.
func component(kind cdx.ComponentType, url *packageurl.PackageURL) cdx.Component {
	return cdx.Component{BOMRef: url.ToString(), Type: kind, Name: path.Join(url.Namespace, url.Name), Version: url.Version, PackageURL: url.ToString()}
}

// hashes returns a module's sum from go.sum, in hexadecimal digits. A module without a sum is an
// error: it was replaced by a directory, whose content nobody else can know.
func hashes(module *debug.Module) (*[]cdx.Hash, error) {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("module %s has the sum %q: remove the replacement by a directory from go.mod", module.Path, module.Sum)
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}, nil
}

// readSBOM returns the digest of the executable that an SBOM describes. An SBOM without
// modules is an error.
func readSBOM(data []byte) (digest string, err error) {
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return "", fmt.Errorf("decode SBOM: %w", err)
	}
	if bom.Components == nil || len(*bom.Components) == 0 || bom.Metadata == nil || bom.Metadata.Component == nil || bom.Metadata.Component.Hashes == nil {
		return "", errors.New("SBOM names no modules, or no digest of a program")
	}
	return (*bom.Metadata.Component.Hashes)[0].Value, nil
}
