package features

var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Columns: {{Version: version.MustParse("1.0"), Default: true, PreRelease: featuregate.GA}},
}
