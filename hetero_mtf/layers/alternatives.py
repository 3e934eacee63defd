"""What to use instead of the Keras layers that are not supported."""

from __future__ import annotations

from collections.abc import Mapping

_AS_2D = "reshape the samples to (steps, 1, channels) and use {}"
_DATA = "do it to the data, before training"
_STEPS = "use convolutions or Attention over the steps"

_ALTERNATIVES: Mapping[str, str] = {
    "Lambda": "use the layer that computes the same, or a class of your own that is described with hetero_mtf.layers.register",
    "LSTM": _STEPS,
    "GRU": _STEPS,
    "SimpleRNN": _STEPS,
    "RNN": _STEPS,
    "Bidirectional": _STEPS,
    "ConvLSTM1D": _STEPS,
    "ConvLSTM2D": _STEPS,
    "ConvLSTM3D": _STEPS,
    "TimeDistributed": "use one convolution or Dense over all steps",
    "Embedding": "give one-hot vectors and use Dense without a bias",
    "EinsumDense": "use Dense",
    "Dot": "use Attention, or Multiply",
    "MultiHeadAttention": "use Dense for query, key and value, and Attention",
    "GroupQueryAttention": "use Dense for query, key and value, and Attention",
    "AdditiveAttention": "use Attention",
    "Conv1D": _AS_2D.format("Conv2D"),
    "DepthwiseConv1D": _AS_2D.format("DepthwiseConv2D"),
    "SeparableConv1D": _AS_2D.format("SeparableConv2D"),
    "Conv1DTranspose": _AS_2D.format("Conv2DTranspose"),
    "MaxPooling1D": _AS_2D.format("MaxPooling2D"),
    "AveragePooling1D": _AS_2D.format("AveragePooling2D"),
    "GlobalMaxPooling1D": _AS_2D.format("GlobalMaxPooling2D"),
    "GlobalAveragePooling1D": _AS_2D.format("GlobalAveragePooling2D"),
    "UpSampling1D": _AS_2D.format("UpSampling2D"),
    "ZeroPadding1D": _AS_2D.format("ZeroPadding2D"),
    "Cropping2D": "use padding='valid' in a convolution or a pooling",
    "Cropping3D": "use padding='valid' in a convolution or a pooling",
    "RepeatVector": "use Reshape and UpSampling2D",
    "Identity": "leave it out",
    "UnitNormalization": "use LayerNormalization",
    "RMSNormalization": "use LayerNormalization",
    "SpectralNormalization": "use BatchNormalization",
    "SpatialDropout1D": "use Dropout",
    "SpatialDropout2D": "use Dropout with noise_shape",
    "SpatialDropout3D": "use Dropout with noise_shape",
    "GaussianDropout": "use Dropout",
    "AlphaDropout": "use Dropout",
    "GaussianNoise": "use Dropout",
    "ActivityRegularization": "use kernel_regularizer=keras.regularizers.L2 of the layers before it",
    "Masking": "cut or pad the samples to one length, before training",
    "Resizing": _DATA,
    "CenterCrop": _DATA,
    "CategoryEncoding": _DATA,
    "Discretization": _DATA,
    "Hashing": _DATA,
    "HashedCrossing": _DATA,
    "StringLookup": _DATA,
    "IntegerLookup": _DATA,
    "TextVectorization": _DATA,
    "MelSpectrogram": _DATA,
    "STFTSpectrogram": _DATA,
}


def alternative(kind: str) -> str:
    """Return what to use instead of a Keras layer, "" where nothing comes near it.

    Parameters
    ----------
    kind : Keras class name.

    Examples
    --------
    >>> alternative("RMSNormalization"), alternative("RandomFlip")
    ('use LayerNormalization', 'do it to the data, before training')
    """
    return _ALTERNATIVES.get(kind, _DATA if kind.startswith(("Random", "Auto")) else "")
