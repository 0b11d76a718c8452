"""bf16.py GGUF TARGET: a GGUF file with its quantized matrices in bf16, everything else as it is."""
import os
import sys

from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

source, target = sys.argv[1:3]
reader = GGUFReader(source)
writer = GGUFWriter(target + ".part", reader.fields["general.architecture"].contents())
for name, field in reader.fields.items():
    if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type", "general.quantization_version"):
        continue
    kind, of = field.types[0], field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
    writer.add_key_value(name, field.contents(), kind, of)
writer.add_file_type(LlamaFileType.MOSTLY_BF16)
for tensor in reader.tensors:
    data, kind = tensor.data, tensor.tensor_type
    if len(tensor.shape) > 1:
        data, kind = quants.quantize(quants.dequantize(data, kind), Type.BF16), Type.BF16
    writer.add_tensor(tensor.name, data, raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
os.rename(target + ".part", target)
